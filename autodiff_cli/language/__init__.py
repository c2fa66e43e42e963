"""The expression language: text to graph (`lowering.read`) and back (`printer.to_text`), with errors that point.

Nothing heavy is imported here: Lark is loaded when a text is first read.
"""
