"""Rollouts: the protocol (`protocol`), and the engine that samples with the Hugging Face model itself."""
