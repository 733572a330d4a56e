"""Policies of how long to draft, one file each; every one is an ordinary plugin."""
