"""Targets: models whose text is wanted."""
