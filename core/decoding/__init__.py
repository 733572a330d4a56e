"""Decoding: the loop of speculative decoding, and the calls built on it.

`decode` is the loop. `run` holds its two values: what is the same for every text, and what belongs
to one. `rounds` is what the loop does in each round: propose, score, verify, commit. `calls` holds
the calls of parts whose answers it rests on; all parts are called through `base.calling`, which
names them in what goes wrong. `kinds` checks that a draft is of the kind that its drafter declares.
`text_stream` turns tokens into characters, `generation` is the one call from a prompt to a text.
Several texts at once are in `batches`.

The loop knows the roles of the contract and no plugin. `generation` also takes names, which it
looks up in `outrider.plugins.registry`. Start with `decode`, then `rounds`.
"""
