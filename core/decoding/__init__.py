"""Decoding: the loop of speculative decoding, and the calls built on it.

`decode` is the loop. `run` holds its two values: what is the same for every text, and what belongs
to one. `rounds` is what the loop does in each round: propose, score, verify, commit. `kinds` checks
that a draft is of the kind that its drafter declares, and `handed_over` what else parts say and
return. `text_stream` turns tokens into characters, `generation` is the one call from a prompt to a
text. `batches` is the loop for several texts at once.

The loop knows the roles of the contract and no plugin. `generation` also takes names, which it
looks up in `outrider.plugins.registry`. Start with `decode`, then `rounds`.
"""
