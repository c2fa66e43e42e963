"""Formulas, evaluated and differentiated at points of numbers and arrays."""
