"""The version of the package, alone in a file so that building it needs no imports."""

__version__ = "0.2.0"
