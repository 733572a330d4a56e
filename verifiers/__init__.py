"""Verifiers: acceptance rules, one file for each; every one is an ordinary plugin.

A rule implements `outrider.contract.verifier.Verifier`: `verify` maps a draft and the target's
scores to an accepted path and the next token. It says `lossless = True`, or states its bound with
`ceiling`. `token` is the default, and `block` accepts the most on chains. `recursive` is not a rule
but the descent that the rules for trees share (`multi_step`, `without_replacement`, `candidates`).

Rules may import the contract, the registry's hooks, `errors` and each other; they know no drafter
and no target. Start with `token`; docs/rules.md compares them all.
"""
