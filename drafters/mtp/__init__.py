"""Multi-token prediction: the target's own layer for it drafts."""
