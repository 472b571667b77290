"""Figures of a study: one file and one function a figure, drawn from the collected tables alone.

This file imports nothing: the workflow reads `NAMES` to know what `driftlaw figures` writes.
"""

# Every study has these four, in the order of the report; what a study cannot show, its figure says.
NAMES = ("curves", "status_map", "score_by_delay", "ratios")
