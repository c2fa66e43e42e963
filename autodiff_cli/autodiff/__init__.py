"""The loops: forward and reverse over a tape, and the passes that work on graphs.

No loop knows an operation: what each does to a number, and its partials, come from a `Kind`.
"""
