"""Borrowed heads make of a state what the target makes of it."""

from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.models import ENTRIES, build

from outrider import ConfigError, Context, Sampling, Tokens
from outrider.contract.draft import Draft
from outrider.drafters.eagle import Eagle
from outrider.drafters.medusa import Medusa
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.logits import LogitRule
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import write_draft


@pytest.mark.parametrize(
    "name", ["llama", "cohere", "granite", "gemma2", "gemma4_text", "minicpm3"]
)
def test_the_rule_is_the_targets(name: str) -> None:
    model = build(ENTRIES[name])
    config = model.config
    for setting, value in (("logit_scale", 0.3), ("final_logit_softcapping", 2.0)):
        if getattr(config, setting, None):
            setattr(config, setting, value)
            setattr(model, setting, value) if hasattr(model, setting) else None
    if name == "granite":
        config.logits_scaling = 3.0
    target = TransformersTarget(model)
    session = target.open([9, 8, 7], frozenset({HIDDEN}))
    logits = session.score(Draft())[0]
    products = session.features()[HIDDEN][-1] @ weights.head(target).T
    torch.testing.assert_close(LogitRule.of(target)(products), logits)


def test_untrained_medusa_predicts_the_targets_token() -> None:
    target = TransformersTarget(build(ENTRIES["cohere"]))
    drafter = bound(Medusa("untrained"), target)
    session = target.open([9, 8, 7], frozenset({HIDDEN}))
    logits = session.score(Draft())[0]
    context = Context(Tokens([9, 8, 7, 6]), None, session.features())
    draft = write_draft(drafter, target, context, gamma=1, sampling=Sampling())
    torch.testing.assert_close(draft.logits[0], logits)


@pytest.mark.parametrize(("name", "make"), [("gemma3n_text", Medusa), ("gemma4_text", Eagle)])
def test_networks_that_do_not_fit_are_refused_in_one_line(name: str, make: Any) -> None:
    target = TransformersTarget(build(ENTRIES[name]))
    with pytest.raises(ConfigError, match=r"^target: [^\n]*$"):
        make("untrained").bind(target)


def test_a_cap_brings_no_excluded_token_back() -> None:
    products = torch.tensor([1.0, -torch.inf, 300.0])
    torch.testing.assert_close(LogitRule(0.5, 2.0)(products)[1], products[1])
