"""Published methods as compositions of our own parts."""
