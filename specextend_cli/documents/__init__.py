"""Documents: read a file to a text with its pages and blocks, and split the text into chunks.

`read` and `read_bytes` return a `Document`, `chunk` splits it, `parse_pages` parses `--pages`. Nothing here needs a
model. To add a format, see `formats.py`.
"""

from specextend_cli.documents.chunk import chunk
from specextend_cli.documents.document import Block, Chunk, Document, Edit, Extraction, Page
from specextend_cli.documents.read import read, read_bytes
from specextend_cli.documents.request import PageRange, parse_pages

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
