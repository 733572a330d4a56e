"""Writes the package of a plugin, which its tests prove."""
