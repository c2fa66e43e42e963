"""A plan written down as LLVM's text."""
