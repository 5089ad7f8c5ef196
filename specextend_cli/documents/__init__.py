"""Documents: a file becomes text with known pages and blocks, and the text becomes chunks.

`read` or `read_bytes` give a `Document`, `chunk` cuts it, `parse_pages` reads `--pages`. Nothing here needs a model.
"""

from specextend_cli.documents.chunk import chunk
from specextend_cli.documents.document import Block, Chunk, Document, Edit, Extraction, Page
from specextend_cli.documents.pages import PageRange, parse_pages
from specextend_cli.documents.read import read, read_bytes

__all__ = [
    "Block",
    "Chunk",
    "Document",
    "Edit",
    "Extraction",
    "Page",
    "PageRange",
    "chunk",
    "parse_pages",
    "read",
    "read_bytes",
]
