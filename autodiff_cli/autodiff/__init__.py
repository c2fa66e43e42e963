"""Automatic differentiation over tapes: forward and reverse sweeps, Taylor series, arrays as scalars, proven digits.

The sweeps contain no operation: how each operation acts on a number, and its partial derivatives, come from a `Kind`.
"""
