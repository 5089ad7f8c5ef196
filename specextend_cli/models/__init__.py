"""Models: presets, where their files come from, how large they are, tokenizers, loading."""
