"""Hydra presets of the bigram drafter."""
