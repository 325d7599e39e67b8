"""Data sets, measures, and runs over them."""
