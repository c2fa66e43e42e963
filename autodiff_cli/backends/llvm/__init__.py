"""Compiled kernels: graphs over rows as vector code for the processor at hand, made through LLVM (llvmlite).

A graph of one row becomes one loop over rows in which everything stays in vector registers, or loops over strips of
rows that stay in the nearest cache. See docs/kernels.md.
"""
