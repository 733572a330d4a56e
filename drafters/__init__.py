"""Drafters, one file a family; every one is an ordinary plugin."""
