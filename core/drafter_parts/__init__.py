"""Drafter parts: what several drafters are built of.

`trees` holds the shapes that a draft can have and fills them; `ngrams` counts n-grams. The others
are for drafters with a network: `layer` is a decoder layer, `features` drafts from the target's
hidden states, `vocabulary` restricts a head to frequent tokens, `weights` finds the files of a
trained network and `checkpoint` reads and writes them.

It imports the contract and the runtime. A drafter itself is a file in `drafters/`; start there,
with `drafters/prompt_lookup.py` for one without a network and `drafters/eagle.py` for one with.
"""
