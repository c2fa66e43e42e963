"""Other languages: how each writes numbers, operations and functions. Exports and the page are written in them."""
