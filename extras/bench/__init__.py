"""The bench: races Outrider against other libraries on the same prompts, each in its own process.

Start with `entrants`, which decides who takes part. Each entrant is a `worker`, a process that
answers questions in JSON lines (`protocol`): `ours` is Outrider's, `peer_transformers` and
`peer_vllm` are the others'. `measure` lets them write in turn and compares speeds and texts;
`curves` and `roofline` measure what bounds them; `report` and `plots` present the result.

May import everything below it, the lab included; its workers may build parts from Hydra configs.
`protocol` and `peer_vllm` import nothing of Outrider: they run where it is not installed.
"""
