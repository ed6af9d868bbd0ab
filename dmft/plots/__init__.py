"""Pictures, one file per kind. The only package that knows matplotlib."""
