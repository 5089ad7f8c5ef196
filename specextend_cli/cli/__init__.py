"""The command line: each module parses the options of a command, calls the library and prints the result."""
