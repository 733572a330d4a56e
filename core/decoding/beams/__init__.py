"""Beams: beam search that a drafter's own beams speed up."""
