"""The models whose text is wanted.

Start with `transformers`: any text model of that library, loaded by `loading`, with a session for
each text (`session`), for a batch of them (`together`), or without drafts (`batch`). `self_test`
shows what such a model can do: `readings` reads `self_test_text` in several ways, and
`kept_tests` keeps the result on disk. `smollm2` is the embedded model, and `gemma3` one with
windows: `packaged` fetches their weights, which `gguf` converts. `tabular` has known
distributions, for proofs. `builtin` registers them, as a plugin does.

May import `contract`, `plugins`, `decoding` and `constraints`.
"""
