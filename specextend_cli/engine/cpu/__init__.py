"""What decodes faster on processors: compiled layers and threads."""
