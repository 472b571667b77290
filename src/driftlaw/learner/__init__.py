"""One optimizer update (`update`), and the checkpoint that makes resume bit-exact (`checkpoint`)."""
