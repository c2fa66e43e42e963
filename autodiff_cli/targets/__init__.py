"""Target languages of exported programs and pages: how each writes numbers, operations and functions."""
