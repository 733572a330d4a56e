"""The models whose text is wanted.

Start with `transformers`: any text model of that library, loaded by `loading`, whose `passes` read
texts on caches that roll back, several in `batches`. `self_test` shows what such a model can do:
it plays `readings` of `self_test_text`, as the conformance kit does with any target, and
`stored_tests` keeps the result on disk. `gguf` converts files of llama.cpp. `tabular` has known
distributions, for proofs.

May import `contract`, `plugins` and `decoding`.
"""
