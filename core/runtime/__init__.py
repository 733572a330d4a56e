"""The runtime: what makes the passes of a transformers model exact to roll back, and cheap.

Start with `cached_model`: a model with the cache of one text, which every target and drafter with
a transformers model uses. `step` runs a pass on the cache it is given: a growing one (`cache`),
one of fixed size for compiled passes (`static`), one spread over processes (`ranks`, `launch`), an
encoder-decoder's (`encoded`), or many texts at once (`ragged`). `passes` holds what goes into a
pass and what comes out. `flat`, `attention` and `linear` are the fast path for packed weights;
`native` compiles the C library behind them, `panels` are its matrices, `native_pass` runs layers
in it, and `quantized` makes models of eight bits (`shells` copies what leads to a replaced layer).
`first_layers` cuts a model, and `stems` cuts off its last norm, too.
`tree_mask` says who sees whom, `windows` how far
back, and `text_tree` reads texts that share their beginning once.

It may import `contract`, `plugins` and `errors`.
"""
