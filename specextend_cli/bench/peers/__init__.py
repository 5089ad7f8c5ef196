"""Other programs over the same weights."""
