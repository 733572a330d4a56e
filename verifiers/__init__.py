"""Acceptance rules, one file each; every one is an ordinary plugin."""
