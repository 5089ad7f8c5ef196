"""Distilling an EAGLE-3 head for a target from documents. Needs torch, transformers, safetensors and numpy only."""
