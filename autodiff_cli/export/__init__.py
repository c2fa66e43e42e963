"""Formulas in other languages: the value and its derivatives as one function."""
