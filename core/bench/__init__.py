"""The bench: Outrider and its peers on the same prompts, each in a process of its own."""
