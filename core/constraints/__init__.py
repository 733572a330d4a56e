"""Constraints that come with the package: penalties on tokens of the text."""
