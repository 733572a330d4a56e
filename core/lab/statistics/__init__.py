"""Rates over prompts, their intervals and the tests between them."""
