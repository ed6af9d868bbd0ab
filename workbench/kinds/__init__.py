"""The kinds of result files, one module each, found by name (workbench/inspection/kinds.py)."""
