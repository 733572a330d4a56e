"""Beam search, sped up by a drafter's own beams; start with `speculation`."""
