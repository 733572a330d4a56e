"""The jobs of a sweep on Ray."""
