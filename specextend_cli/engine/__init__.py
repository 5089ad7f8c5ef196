"""Speculative decoding over token ids: it sees no text and prints nothing. Needs torch, transformers and numpy only."""
