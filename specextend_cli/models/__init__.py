"""Models: presets, sources of their files, sizes, tokenizers, loading, EAGLE heads."""
