"""Targets: the models whose text is wanted.

`transformers` takes any text model of that library, `smollm2` is the one that comes with Outrider,
and `tabular` has known conditionals, for proofs. `loading` reads a model and its tokenizer,
`together` scores several texts in one pass, and `batch` writes many texts without drafts.

It imports the contract and the runtime; each target is an ordinary plugin. Start with `tabular`,
which is the shortest complete target, then `transformers`.
"""
