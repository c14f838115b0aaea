"""Figures of the report as plotly specifications, a module each: rows of one query in, a Figure or None out.

None means that there is nothing to draw; the page then says why in a sentence instead of showing empty axes.
Specifications are plain dicts, which plotly.js draws in the page: building them needs no plotly, costs milliseconds
and gives the same bytes for the same rows (tests check them against plotly's schema).
"""
