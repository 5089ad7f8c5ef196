"""Captions and chats."""
