"""Language models and trained networks as drafters, and the layouts of their weights.

Start with `trained`, the interface of networks that are trained for a target; `cached_text` is a
language model that reads each text only once.
"""
