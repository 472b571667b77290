"""What `benchmarks/peers.py` compares: the libraries, the batches, the pairs of losses, the page."""
