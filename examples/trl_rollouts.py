"""Rollouts for TRL's `GRPOTrainer` with drafts, closed to whatever is not exact.

GRPOTrainer(model, reward_funcs, train_dataset=..., rollout_func=rollouts)
"""

from typing import Any

import outrider
from outrider.targets.transformers import TransformersTarget

DRAFTER = "suffix"
"""Drafts from what the texts before have in common, and needs no training."""


def rollouts(prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
    """Returns a text of the trainer's policy, as its weights are now, for each prompt.

    The log-probabilities are the policy's own, at temperature 1.
    """
    tokenizer, settings = trainer.processing_class, trainer.args
    target = TransformersTarget(trainer.model, tokenizer)
    texts = outrider.generate_together(
        target,
        prompts,
        DRAFTER,
        sampling=outrider.Sampling(
            temperature=settings.temperature, seed=settings.seed + trainer.state.global_step
        ),
        max_new_tokens=settings.max_completion_length,
        logprobs=0,
        lossy="refuse",
    )
    return {
        "prompt_ids": [target.encode(prompt) for prompt in prompts],
        "completion_ids": [text.tokens for text in texts],
        "logprobs": [[it.logprob for it in text.logprobs] for text in texts],
    }
