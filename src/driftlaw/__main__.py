"""`python -m driftlaw`."""

from driftlaw.cli import main

main()
