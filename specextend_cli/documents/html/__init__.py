"""HTML pages, and what other formats share with them."""
