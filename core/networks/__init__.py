"""Networks: what drafters that read the target's hidden states are made of."""
