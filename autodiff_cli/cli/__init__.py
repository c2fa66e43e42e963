"""The command line: read options, call the floors below, print. Thin on purpose."""
