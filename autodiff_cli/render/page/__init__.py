"""The page of `trace --format html`: its template, style, script, and evaluator."""
