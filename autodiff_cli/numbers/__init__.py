"""Kinds of numbers: floats, NumPy arrays, and balls with proven digits.

Each kind has a table with a function for each operation, by the operation's name. Derivative rules need no table: they
are graphs, and are compiled into functions of a kind of number through its table.
"""
