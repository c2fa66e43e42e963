"""Computation graphs: nodes, operations, tapes, shapes, derivatives as graphs, and code generation.

This package is the lowest layer and contains no formulas: `autodiff_cli.ops` declares the operations and their
derivative rules.
"""
