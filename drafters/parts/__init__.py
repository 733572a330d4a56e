"""What drafters share: `networks` on the target's states, counts of `texts`, shapes of `trees`."""
