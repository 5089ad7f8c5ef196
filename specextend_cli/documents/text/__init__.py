"""Plain text, Markdown and notebooks."""
