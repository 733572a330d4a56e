"""Checks of the examples that a part gives: each is run, and its outcome must match."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance, Noise, SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import ROOT, Draft, origins_of
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy, PolicyExample
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Sheet
from outrider.contract.verifier import Scores, Verifier, VerifierExample
from outrider.decoding.calls import depth_of, goes_on
from outrider.decoding.decode import decode
from outrider.targets.tabular import TabularTarget
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.exact import verdict_of
from outrider.testing.tiny_targets import draft_on
from outrider.verifiers.sample_match import SampleMatch

TOLERANCE = 1e-6
"""How far a probability may be from the one that an example says; float32 is good enough."""


def check_its_examples_of_drafts_hold(make: Callable[[], Drafter]) -> None:
    """It writes the drafts that its `examples` say. (A drafter need not have any.)"""
    part = type(make())
    for example in part.examples:
        draft = _drafted(part(**example.settings), example)
        after = f"after {tuple(example.text)} it wrote"
        expected = tuple(example.draft)
        assert draft.tokens == expected, f"{after} {draft.tokens}, the example says {expected}"
        parents = tuple(example.parents or range(ROOT, len(draft) - 1))
        assert draft.parents == parents, (
            f"{after} {draft.tokens} with the parents {draft.parents}, the example says {parents}"
        )
        for node, prob in enumerate(example.probs or ()):
            row = draft.distribution(node, torch.ones(example.vocab_size))
            recorded = float(row[expected[node]])
            assert abs(recorded - prob) <= TOLERANCE, (
                f"{after} {expected}, token {node + 1} with probability {recorded:.6f},"
                f" the example says {prob:.6f}"
            )


def _drafted(drafter: Drafter, example: DrafterExample) -> Draft:
    target = counting_up(example.vocab_size)
    missing = ", ".join(sorted(drafter.needs - target.offers))
    assert not missing, f"the target of an example offers no {missing}"
    drafter.bind(target)
    drafter = drafter.open()
    for earlier in example.earlier:
        _draft(drafter, example, earlier)
        drafter.remember(Context(Tokens(list(earlier))))
    if not example.rounds:
        return _draft(drafter, example, example.text)
    rounds = decode(
        target, drafter, SampleMatch(), example.text, gamma=example.gamma, budget=example.budget
    )
    round = next(itertools.islice(rounds, example.rounds, None))
    return Draft(round.draft, round.parents, (None,) * len(round.draft))


def _draft(drafter: Drafter, example: DrafterExample, text: Sequence[int]) -> Draft:
    sampled = example.probs is not None
    sampling = Sampling(temperature=float(sampled))
    chance = _Wish(example.draft) if sampled else SampledChance.seeded(0)
    sheet = Sheet(sampling, chance, example.vocab_size, example.gamma, budget=example.budget)
    return draft_on(sheet, drafter, Context(Tokens(list(text))))


def counting_up(vocab_size: int) -> TabularTarget:
    """Returns a target that expects each token to be one more than the token before it."""
    ids = torch.arange(vocab_size)
    steps = (ids[None] - ids[:, None] - 1) % vocab_size
    return TabularTarget.of((-steps.double()).softmax(-1), order=1)


@final
class _Wish(Chance):
    """Draws given tokens in turn where they are possible, and else the likeliest."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = iter(tokens)

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return [p > 0 for p in probs.tolist()]

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        token = next(self._tokens, None)
        return token if token is not None and probs[token] > 0 else int(probs.argmax())


def check_its_examples_of_verdicts_hold(make: Callable[[], Verifier]) -> None:
    """It accepts what its `examples` say, and the text has their distribution. (A rule need not
    have any.)
    """
    part = type(make())
    for example in part.examples:
        rule = part(**example.settings)
        p, accepted = torch.tensor(example.p, dtype=torch.float64), 0.0
        text = [0.0] * len(p)
        play = partial(_first_token, rule, example)
        for share, (token, count) in EnumeratedChance.outcomes(play):
            text[token] += share
            accepted += share * count
        case = f"for p={tuple(example.p)} and q={tuple(example.q)}"
        if example.accepted is not None:
            assert abs(accepted - example.accepted) <= TOLERANCE, (
                f"{case} it accepts {accepted:.6f} tokens, the example says {example.accepted:.6f}"
            )
        for token, (seen, expected) in enumerate(zip(text, example.text or example.p, strict=True)):
            assert abs(seen - expected) <= TOLERANCE, (
                f"{case} token {token} has probability {seen:.6f}, the example says {expected:.6f}"
            )


def _first_token(rule: Verifier, example: VerifierExample, chance: Chance) -> tuple[int, int]:
    """Returns the first token of the text, and how many tokens of the draft were accepted."""
    sampling = Sampling(temperature=example.temperature)
    most = sum(example.siblings**depth for depth in range(1, example.gamma + 1))
    p, q = (torch.tensor(row, dtype=torch.float64) for row in (example.p, example.q))
    noise = Noise((), rule.window)
    coupled = noise if rule.coupled else None
    pen = Pen(Sheet(sampling, chance, len(q), example.gamma, budget=most, noise=coupled))
    layer: Sequence[int] = (ROOT,)
    for _ in range(example.gamma):
        layer = [node for parent in layer for node in _siblings(pen, q, parent, example)]
    draft = pen.sheet.finish()
    shown = None if rule.lossless else Context(Tokens([0]))
    scores = Scores(p.log().expand(len(draft) + 1, -1), sampling, noise, shown)
    verdict = verdict_of(rule, draft, scores, chance)
    accepted = [draft.tokens[node] for node in verdict.accepted]
    return [*accepted, verdict.next_token][0], len(accepted)


def _siblings(
    pen: Pen, q: Float[Tensor, "vocab"], parent: int, example: VerifierExample
) -> Sequence[int]:
    if float(q.max()) == 1:
        pen.write(int(q.argmax()), after=parent)
        return (pen.last,)
    return pen.branch(q.log(), example.siblings, replacement=example.kind == "iid", after=parent)


def check_its_examples_of_lengths_hold(make: Callable[[], Policy]) -> None:
    """The drafts are as long as its `examples` say. (A policy need not have any.)"""
    part = type(make())
    for example in part.examples:
        policy = part(**example.settings)
        begins = {0, *itertools.accumulate(example.texts or ())}
        for number, (length, accepted) in enumerate(example.rounds):
            if number in begins:
                policy.reset()
            draft = Draft()
            for draft in growing(example, depth_of(policy, example.gamma)):
                if not goes_on(policy, draft):
                    break
            assert len(draft) == length, (
                f"in round {number + 1} its draft has {len(draft)} tokens, the example says"
                f" {length} (of {example})"
            )
            path = range(len(draft)) if example.branch is None else example.branch
            drafting, scoring = example.seconds
            seconds = {"draft": drafting * len(draft), "score": scoring, "verify": 0.0}
            policy.observe(made_up_round(draft, path[:accepted], seconds))


def growing(example: PolicyExample, depth: int) -> Iterator[Draft]:
    """Yields the draft each time that siblings were written, down to a depth."""
    parents = list(range(ROOT, depth - 1) if example.parents is None else example.parents)
    last = len(example.probabilities) - 1
    probabilities = [example.probabilities[min(node, last)] for node in range(len(parents))]
    logits = tuple(torch.tensor([p, 1 - p], dtype=torch.float64).log() for p in probabilities)
    probs = tuple(row.softmax(-1) for row in logits)
    for count in range(1, len(parents) + 1):
        draft = Draft((0,) * count, tuple(parents[:count]), probs[:count], logits[:count])
        if len(draft.path(count - 1)) > depth:
            return
        if count == len(parents) or parents[count] != parents[count - 1]:
            yield draft


def made_up_round(draft: Draft, path: Sequence[int], seconds: dict[str, float]) -> Round:
    """Returns the round in which a path of a draft was accepted, and the target added a 0."""
    accepted, goes_on = len(path), bool(draft.children(path[-1] if path else ROOT))
    return Round(
        tokens=(*(draft.tokens[node] for node in path), 0),
        origins=origins_of(draft, path),
        pieces=("",) * (accepted + 1),
        draft=draft.tokens,
        parents=draft.parents,
        path=tuple(path),
        drafted=len(draft),
        tested=accepted + goes_on,
        accepted=accepted,
        seconds=seconds,
    )
