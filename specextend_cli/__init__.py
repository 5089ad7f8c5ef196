"""specextend: summaries of long documents on your own machine, decoded by SpecExtend."""

__version__ = "0.1.0"
