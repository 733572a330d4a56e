"""Plugins: hooks, registry and configs."""
