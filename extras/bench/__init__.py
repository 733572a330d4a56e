"""The bench: races Outrider against other libraries on the same prompts, each in its own process.

Start with `entrants`, which decides who takes part. Each entrant is a `worker`, a process that
answers questions in JSON lines: `ours` is Outrider's, `peer` runs the other libraries. `measure`
lets them write in turn, compares speeds and texts, and finds what bounds them; `report` presents
the result.

May import everything below it, the lab included; its workers may build parts from Hydra configs.
`peer` imports nothing of Outrider: it runs where that is not installed.
"""
