"""The contract: what the author of a plugin reads, and nothing that needs a model to run."""
