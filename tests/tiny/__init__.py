"""Tiny random models of every architecture of transformers, and the ways to write with them."""
