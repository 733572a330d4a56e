"""Training: drafters and policies learn from the target's own text.

`outrider train` comes here: `job` is what is asked for, `corpus` has the target write texts,
`states` reads its hidden states, `loop` runs the steps, with checkpoints to resume from, and
`drafters`, `tables` and `classifier` are the three kinds of things that learn. `families` says how
each network learns; the other modules are losses and starting points.

It imports the lab for prompts and texts, and the drafters that it trains. Start with `drafters`,
then `loop`.
"""
