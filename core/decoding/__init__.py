"""Decoding: the loop, one call from a prompt to its text, and beam search."""
