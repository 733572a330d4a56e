"""Alpha from distributions, and decoding against the clock."""
