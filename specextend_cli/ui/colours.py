"""What colours mean here. They only repeat what words or figures say."""

ACCENT = "cyan"
QUIET = "bright_black"
AMBER = "yellow"
GOOD = "green"
ADDED = "green"
REMOVED = "red"
