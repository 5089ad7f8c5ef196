"""PDFs and other documents that real producers make of known text, and how much of it a reader finds."""
