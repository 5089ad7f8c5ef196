"""Documents: `read` reads a file to a text with its pages and blocks, `chunk` splits it. Nothing here needs a model.

To add a format, see `formats.py`.
"""
