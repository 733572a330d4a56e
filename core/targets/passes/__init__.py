"""Forward passes of any transformers model, with caches that roll back exactly.

Start with `cached_model`: a model with the cache of one sequence. `run_pass` runs a pass on the
cache it is given: a growing one (`cache`), one of fixed size (`compiled_cache`), one spread over
processes (`ranks`, `launch`), an encoder-decoder's (`encoded`), or many sequences at once
(`ragged`). `pass_input` holds what goes into a pass and what comes out.
"""
