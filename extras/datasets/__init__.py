"""Data sets that the field compares on, and the formats and places that they come in."""
