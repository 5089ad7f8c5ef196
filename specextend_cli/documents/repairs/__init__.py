"""Repairs of the lines of a document: each a function from pages to repaired pages, which adds its edits to a list.

None changes what a page says: they remove what is printed around the text, rejoin what line and page breaks divide,
and replace characters that only a printer needs.
"""
