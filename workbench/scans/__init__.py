"""Scans over parameters: many results gathered into one table."""
