"""Hydra presets of the echo drafter."""
