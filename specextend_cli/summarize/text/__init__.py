"""Text as sentences, words, terms and languages."""
