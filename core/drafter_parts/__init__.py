"""Drafter parts: trees, n-gram counts and networks that drafters share."""
