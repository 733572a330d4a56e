"""A comparison's folder, and what its measurements add up to."""
