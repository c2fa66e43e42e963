"""Expressions as data: nodes, operations, tapes, and the reverse loop on nodes.

This floor knows no formula: which operations exist, and their derivative rules, is said in `autodiff_cli.ops`.
"""
