"""Extractive summarization: a document's sentences, their features, a learnt ranker, and the choice among them."""
