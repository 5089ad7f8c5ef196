"""Attention for draft trees, registered with transformers under one name, with interchangeable back ends."""

from specextend_cli.engine.attention.function import NAME, Backend, ForwardContext, Queries

__all__ = ["NAME", "Backend", "ForwardContext", "Queries"]
