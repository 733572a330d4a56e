"""The runtime: what makes the passes of a transformers model cheap."""
