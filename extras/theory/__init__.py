"""Predictions from the papers' formulas, and the profiles of drafters that they start from."""
