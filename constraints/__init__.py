"""Constraints on texts: penalties on tokens, and grammars."""
