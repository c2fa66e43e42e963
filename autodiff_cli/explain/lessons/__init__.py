"""Lessons on backpropagation: words, a formula, and questions, made of what a trace records."""
