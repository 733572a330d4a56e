"""Serving: drafters inside engines that exist."""
