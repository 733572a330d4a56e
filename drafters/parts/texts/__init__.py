"""Phrases and counts of texts, and texts in the tokens of another tokenizer."""
