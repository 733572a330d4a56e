"""Constraints that come with the package: penalties on tokens, and grammars."""
