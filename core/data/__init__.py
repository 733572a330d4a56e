"""Prompts, and the data sets that they are read from."""
