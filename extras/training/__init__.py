"""Fits tables, policies and drafters to what a target writes.

- `recipe`: what a recipe is given. `drafters`, `classifier`, `calibration`,
  `speculators_data`: the recipes; `conf/recipe/` has a file for each use of them.
- `generated_texts`, `corpus`, `rows`, `states`: the texts that the target writes or the user has,
  and the target's hidden states along them.
- `learner`: what the loop needs of a family of networks. Start here to add one; the objectives of
  the built-in ones are in `head_objectives`, `feature_objectives`, `dflash_objective`,
  `parallel_objectives` and `distill`, on `losses`.
- `loop`, `progress`, `whitening`, `identity`: steps of the optimizer, and how to resume.
- `card`: what is written beside trained weights.
"""
