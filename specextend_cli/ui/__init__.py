"""Everything that is written to a terminal, a pipe or a file: consumers of the pipeline's events."""
