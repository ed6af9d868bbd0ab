"""The version of the package, alone in a file so that building it needs no imports."""

__version__ = "0.1.0"
