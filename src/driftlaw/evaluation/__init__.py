"""Held-out evaluation: the scores (`scores`) and the frozen measurement of a policy (`heldout`)."""
