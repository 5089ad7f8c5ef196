"""Repairs of text as files hold it, one a module: see `clean.py`, which puts them in order."""
