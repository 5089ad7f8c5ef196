"""Published methods, composed of our own parts."""
