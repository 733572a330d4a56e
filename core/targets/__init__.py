"""The models whose text is wanted.

Start with `transformers`: any text model of that library, loaded by `loading`, with a session for
each text (`session`). `self_test` shows what such a model can do: `readings` reads `self_test_text`
in several ways, and `kept_tests` keeps the result on disk. `gguf` converts files of llama.cpp.
`tabular` has known distributions, for proofs.

May import `contract`, `plugins` and `decoding`.
"""
