"""Parameters with a value for each level of a column (`a[group]`), and comparisons of a column with quoted text."""
