"""Forward passes of any transformers model, with caches that roll back exactly.

Start with `cached_model`: a model with the cache of one sequence. `run_pass` runs a pass on the
cache it is given: one that grows (`growing_cache`), one spread over processes (`ranks`, `launch`),
or an encoder-decoder's (`encoded`). The `engine` of a model runs it: transformers' own modules, or
what a plugin registers. `pass_input` holds what goes into a pass and what comes out.
"""
