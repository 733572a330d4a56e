"""Acceptance rules, one file each or beside their like, all of them ordinary plugins.

A rule implements `outrider.contract.verifier.Verifier`: `verify` maps a draft and the target's
scores to an accepted path and the next token. It says `lossless = True`, or states its bound with
`ceiling`, and may state a `budget`. `token` is the default, and `block` accepts the most on chains.

`recursive` holds three rules with one descent: `multi_step`, `without_replacement`, `candidates`.
Three modules are not rules: `towards` the token rule with another distribution in place of
p (`cactus`, `cascade`), `selection` the linear program of `optimal_transport`, and `ceiling` the
best acceptance that any lossless rule can reach.

May import the contract, the registry's hooks, `errors` and each other, but no drafter and no
target. Start with `token`; docs/rules.md compares them all.
"""
