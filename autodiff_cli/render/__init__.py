"""Renders results: reports, tables, JSON documents, drawings, plots, LaTeX and HTML pages.

Renderers receive finished results, such as a trace or a fit, and do no mathematics. The folders `page`, `learning` and
`lessons` hold the HTML, CSS and JavaScript of the pages.
"""
