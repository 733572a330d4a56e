"""Several texts at once: they share a cache and the model's passes, and come and go.

Start with `batching`, which `plugin` names: what the core asks. `continuous_batch` is the loop over
the rounds of several texts, which `proposing` has drafts written for; `writing` writes texts
without drafts. Both ask a `batch_target`, which `batched` makes of any target. Of a model it opens
`sessions` on one `batch_cache`: that of its engine, or a `padded_batch`, whose `batch_rows` are
held in layers (`ragged_layer`).
"""
