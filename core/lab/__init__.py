"""The lab: drafters side by side, on the same prompts and the same prefixes."""
