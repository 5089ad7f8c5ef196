"""Email messages and mailboxes."""
