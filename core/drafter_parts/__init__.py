"""What drafters share: the shapes of drafts, n-gram counts, and networks on the target's states.

- `trees`, `tree_forms`, `sequoia`: the shape of a draft, and how a config writes it.
- `ngrams`: counts of a corpus or of the running text.
- `trained`: the interface of networks that are trained for a target. Start here to add one.
- `features`, `layer`, `vocabulary`, `branches`: what such networks are made of.
- `weights`, `checkpoint`, `student`, `speculators`: where they are kept, and in which layouts.
- `cached_text`: a language model that reads each text only once, or continues from the target's
  keys and values; `lent_drafts` does the latter for many contexts at once. `adapter` is a network
  on top of the target's first layers, and `adapted_model` runs both.

May import `contract`, `plugins` and `runtime`.
"""
