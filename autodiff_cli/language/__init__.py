"""The expression language: text to graph (`program.read`) and back (`printer.to_text`), and errors with positions.

This package imports nothing heavy: Lark is loaded only when the parser's tables are not in the cache.
"""
