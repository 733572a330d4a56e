"""The log-probabilities of a text are those that the target gives token by token."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import outrider
from outrider import Constraint, Context, Draft, Drafter, Pen, Sampling, TokenLogprob, Verdict
from outrider.decoding.token_logprobs import token_logprobs
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget

TABLE = TabularTarget(6, order=2, seed=3)
DRAFTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("token", {"drafter": Random(), "gamma": 3}),
    ("multi_step", {"drafter": Random(tree="iid:2"), "gamma": 3, "budget": 8}),
    ("without_replacement", {"drafter": Random(tree="2x2"), "gamma": 2, "budget": 6}),
)
"""A chain and trees, each with a rule that takes it."""


def along(target: Any, prompt: list[int], text: list[int], count: int) -> list[TokenLogprob]:
    """Returns the log-probabilities of a text, from logits that `target` gives prefix by prefix."""
    rows = [target([*prompt, *text[:known]]) for known in range(len(text))]
    return list(token_logprobs(torch.stack(rows), text, count))


@pytest.mark.parametrize(("rule", "drafts"), DRAFTS)
def test_logprobs_of_a_table_are_exact(rule: str, drafts: dict[str, Any]) -> None:
    sampling = Sampling(temperature=0.7, top_k=4)
    prompts, options = [[0, 1], [2]], {"logprobs": 2, "max_new_tokens": 20, **drafts}
    texts = outrider.generate_together(TABLE, prompts, verifier=rule, sampling=sampling, **options)
    text = outrider.generate(TABLE, prompts[0], verifier=rule, sampling=sampling, **options)
    assert text.counts.accepted > 0
    for prompt, each in zip([*prompts, prompts[0]], [*texts, text], strict=True):
        assert each.logprobs == along(TABLE.logits, prompt, each.tokens, 2)
    for token, logprob in zip(text.tokens, text.logprobs, strict=True):
        assert len(logprob.top) == 2 and logprob.top[0][1] >= logprob.top[1][1]
        assert logprob.rank > 2 or logprob.top[logprob.rank - 1] == (token, logprob.logprob)


class Overwriting(Drafter):
    """Draws from all tokens alike, and writes into the logits that it is shown."""

    def open(self) -> "Overwriting":
        return Overwriting()

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.draw(torch.zeros(pen.vocab_size))

    def observe(self, context: Context, draft: Draft, logits: Any, verdict: Verdict) -> None:
        logits.zero_()


def test_logits_that_a_drafter_has_written_into_are_read_by_nothing() -> None:
    sampling = Sampling(temperature=0.7, seed=0)
    options = {"sampling": sampling, "gamma": 3, "logprobs": 2, "max_new_tokens": 20}
    text = outrider.generate(TABLE, [0, 1], Overwriting(), **options)
    assert text.tokens == outrider.generate(TABLE, [0, 1], Random(), **options).tokens
    assert text.logprobs == along(TABLE.logits, [0, 1], text.tokens, 2)


def test_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.25, 0.0]], dtype=torch.float64).log()
    (logprob,) = token_logprobs(logits, [1], 9)
    half, quarter = logits[0, 0].item(), logits[0, 1].item()
    assert logprob == TokenLogprob(quarter, 2, logprob.top)
    assert sorted(logprob.top) == [(0, half), (1, quarter), (2, quarter)]


def test_a_constraint_leaves_logprobs_alone() -> None:
    class Even(Constraint):
        def logits(self, ids: Any, logits: torch.Tensor) -> torch.Tensor:
            odd = torch.arange(len(logits)) % 2 == 1
            return logits.masked_fill(odd, float("-inf"))

    text = outrider.generate(
        TABLE, [0, 1], Random(), constraint=Even(), logprobs=0, max_new_tokens=12
    )
    assert text.logprobs == along(TABLE.logits, [0, 1], text.tokens, 0)
    assert any(logprob.rank > 1 for logprob in text.logprobs)


def test_the_command_writes_logprobs(run: Any, tmp_path: Path) -> None:
    status, _, _ = run(
        *("generate", "target=tabular", "prompt=[0,1]", "drafter=random", "logprobs=2"),
        *("max_new_tokens=5", f"hydra.run.dir={tmp_path / 'out'}"),
    )
    report = json.loads((tmp_path / "out" / "generation.json").read_text())
    assert status == 0 and len(report["logprobs"]) == len(report["tokens"]) == 5
    for token, entry in zip(report["tokens"], report["logprobs"], strict=True):
        assert entry["rank"] == 1 and entry["top"][0] == [token, entry["logprob"]]  # greedy
