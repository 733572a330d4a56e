"""Falcon: one small layer drafts a whole block of tokens in each pass."""
