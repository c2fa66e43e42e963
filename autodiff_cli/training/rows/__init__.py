"""The rows that a fit is about, wherever they are, and what is computed over all of them: one fold."""
