"""The lab: measures drafters side by side, on the same prompts and the same prefixes.

Start with `compare`, which turns prompts into questions and yields a measurement for each drafter,
question and protocol. `overlap` computes alpha from distributions; `trial` decodes and times.
`store` keeps measurements on disk as they are made; `summary` turns them into rates, with the
statistics of `intervals`. `identity` says what a run's figures come from. `table`, `figures`,
`report` and `export` present a summary; `load` reads runs into data frames, for notebooks.

May import everything below it: the contract, decoding, targets and the built-in parts. It knows no
Hydra; the commands build what it measures.
"""

from outrider.lab.frames import Frames, load

__all__ = ["Frames", "load"]
