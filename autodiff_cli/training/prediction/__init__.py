"""What a fit says of new rows: its prediction, and how far off that may be."""
