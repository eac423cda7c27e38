"""Command line tools (`python -m minijit ...`): each is built on the public API alone."""
