"""Prompts, and the role of scores, which judge the answers to them."""
