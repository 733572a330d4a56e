"""Recipes that fit tables, a policy and drafters to what a target writes.

- `drafters`, `tables`, `classifier`: the recipes; `conf/recipe/` has a file for each use of them.
- `corpus`, `writing`, `states`: the texts that the target writes, and its hidden states along them.
- `families`: the networks that can be trained. Start here to add one; its objective goes into
  `head_objectives`, `feature_objectives`, `exit_objective` or `distill`, on the losses of
  `losses`, `unrolled` and `glancing`.
- `loop`, `schedule`, `progress`, `starts`, `whitening`: steps of the optimizer, and how to resume.
- `card`, `contamination`: what is written beside trained weights.

May import everything but `serving` and `commands`.
"""
