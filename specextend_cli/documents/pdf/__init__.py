"""PDF: PDFium's text with positions, to lines."""
