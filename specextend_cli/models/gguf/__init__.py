"""GGUF files: their header, settings in transformers' layout, and weights."""
