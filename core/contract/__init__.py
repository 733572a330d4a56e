"""The contract: what the author of a plugin reads, and what every plugin can rely on.

The roles are abstract classes: `drafter`, `verifier` (an acceptance rule), `policy` (how long to
draft) and `target` (the model). What passes between them are values: `context` is all that a
drafter sees, `draft` all that it writes, with the `pen` as the only way to write it, on a `sheet`;
on an accelerator, tokens may be read later (`deferred`). Drafters made of other drafters also use
`composition`. `round` is the outcome of one target call.
`chance` is the only source of randomness, the noise included that a rule may share with the pen.
`sampling` is the only way from logits to a distribution, a `constraint` changes the target's
logits, and `prompt` takes what people hand over as one.

Nothing here runs a model or knows a plugin. Start with `drafter`, then `pen`.
"""
