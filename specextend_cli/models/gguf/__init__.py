"""GGUF files: read, and converted to transformers' layout."""
