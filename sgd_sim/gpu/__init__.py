"""The dynamics of many instances on a GPU."""
