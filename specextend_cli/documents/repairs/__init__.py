"""Repairs of the lines of a document: each a function from pages to repaired pages and the list of its edits.

None changes what a page says: they remove what is printed around the text, rejoin what line and page breaks divide,
and replace characters that only a printer needs.
"""
