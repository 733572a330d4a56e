"""How long to draft, one file each, all of them ordinary plugins.

A policy implements `outrider.contract.policy.Policy`: `depth` before a draft, `more` after each of
its tokens, `observe` after the round. `heuristic`, `optimal`, `goodput`, `utility` and `bandit`
choose a length; `confidence`, `entropy` and `classifier` stop after an unlikely token; `cost_model`
does both.
`saved_state` keeps what some of them learn from one run to the next. (`Fixed`, the default, is in
the contract.)

May import the contract, the registry's hooks, `theory` and `errors`, but no drafter and no rule.
Start with `heuristic`, the shortest; `optimal` shows how a policy learns.
"""
