"""`specextend bench`: methods of decoding, measured side by side."""
