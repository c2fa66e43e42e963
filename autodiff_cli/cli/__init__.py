"""The command line: a thin layer that reads options, calls the packages below, and returns reports to write."""
