"""Extractive summarization: a document's sentences, a score for each, and the choice among them."""
