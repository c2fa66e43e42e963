"""What each operation does to one kind of number: one table per kind, by the operation's name.

Rules need no table: they are graphs, and become functions of a kind of number through it.
"""
