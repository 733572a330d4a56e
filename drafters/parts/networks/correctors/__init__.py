"""What makes tokens that were drafted in one pass depend on each other."""
