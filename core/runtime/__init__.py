"""The runtime: runs the passes of a transformers model fast, with caches that roll back exactly.

Start with `cached_model`: a model with the cache of one text, which every target and drafter with
a transformers model uses. `step` runs a pass on the cache it is given: a growing one (`cache`),
one of fixed size for compiled passes (`static`), one spread over processes (`ranks`, `launch`), an
encoder-decoder's (`encoded`), or many texts at once (`ragged`). `passes` holds what goes into a
pass and what comes out. `flat`, `attention` and `linear` are the fast path for packed weights;
`native` compiles the C library behind them, `panels` are its matrices, `native_pass` runs layers
in it, and `quantized` makes models of eight bits (`shells` copies the modules above a replaced
layer). `first_layers` cuts a model, and `stems` cuts off its last norm, too. `tree_mask` says which
tokens a token attends to, `windows` how far back, and `text_tree` reads a common prefix of texts
only once.

May import `contract`, `plugins` and `errors`.
"""
