"""External programs over the same weights."""
