"""How it is made small: one module per kind of method."""
