"""Verifiers: acceptance rules, one file for each; every one is an ordinary plugin.

A rule implements `outrider.contract.verifier.Verifier`: `verify` maps a draft and the target's
scores to an accepted path and the next token. It says `lossless = True`, or states its bound with
`ceiling`, and may state a `budget`. `token` is the default, and `block` accepts the most on chains.

Five modules are no rules: `recursive` is the descent that rules for trees share (`multi_step`,
`without_replacement`, `candidates`), `towards` the token rule with another distribution in p's
place (`cactus`, `cascade`), `selection` the linear program of `optimal_transport`, `distinct` the
probabilities of siblings without replacement, and `ceiling` the best acceptance that any lossless
rule can reach.

Rules may import the contract, the registry's hooks, `errors` and each other; they know no drafter
and no target. Start with `token`; docs/rules.md compares them all.
"""
