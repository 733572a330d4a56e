"""Faults that break the law of a text, each a small patch of one function of the code.

The same eight are put into every acceptance rule. Others are of sampling, chance, pen and loop.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

from mutation import RULE_FILES, Fault

Verify = Callable[..., Any]
RULES = (
    *("token", "multi_step", "without_replacement", "traversal", "k_seq", "multi_path_block"),
    *("block", "candidates", "sample_match", "rejection", "scaled_uniform"),
    *("gumbel", "lenient", "typical", "optimal_transport"),
    *("towards", "fly", "truncation"),
)
CHAINS = (
    *("token", "block", "rejection", "scaled_uniform", "lenient", "gumbel"),
    *("towards", "fly", "truncation"),
)
"""The rules without siblings."""


def _with(change: Callable[[Any, Any, Any], tuple[Any, Any, Any]]) -> Callable[[Verify], Verify]:
    """Returns a patch that changes what a rule is given."""
    return lambda verify: lambda self, *given: verify(self, *change(*given))


def _chance_of(**methods: Callable[..., Any]) -> Callable[[Verify], Verify]:
    """Returns a patch that gives a rule a chance with other methods, which get the right one."""

    class Other:
        def __init__(self, right: Any) -> None:
            self.right = right

        def __getattr__(self, name: str) -> Any:
            return partial(methods[name], self) if name in methods else getattr(self.right, name)

    return _with(lambda draft, scores, chance: (draft, scores, Other(chance)))


def _residual(verify: Verify) -> Verify:
    def drawn_from_p(self: Any, draft: Any, scores: Any, chance: Any) -> Any:
        verdict = verify(self, draft, scores, chance)
        p = scores.after(verdict.accepted[-1] if verdict.accepted else -1)
        return replace(verdict, next_token=chance.categorical(p))

    return drawn_from_p


def _dropped(verify: Verify) -> Verify:
    def without_the_last(self: Any, *given: Any) -> Any:
        verdict = verify(self, *given)
        return replace(verdict, accepted=verdict.accepted[:-1])

    return without_the_last


def _stale(draft: Any, scores: Any, chance: Any) -> tuple[Any, Any, Any]:
    return replace(draft, probs=draft.probs[:1] * len(draft)), scores, chance


def _swapped(draft: Any, scores: Any, chance: Any) -> tuple[Any, Any, Any]:
    tokens = list(draft.tokens)
    if len(pair := draft.children(-1)[:2]) == 2:
        tokens[pair[0]], tokens[pair[1]] = tokens[pair[1]], tokens[pair[0]]
    return replace(draft, tokens=tuple(tokens)), scores, chance


def _other_row(draft: Any, scores: Any, chance: Any) -> tuple[Any, Any, Any]:
    return draft, replace(scores, logits=scores.logits.roll(1, 0)), chance


def _first_coin(chance: Any, probs: Any) -> list[bool]:
    if "coin" not in vars(chance):
        (chance.coin,) = chance.right.coins(probs[:1])
    return [cast("bool", chance.coin)] * len(probs)


def _squared(chance: Any, probs: Any) -> list[bool]:
    return cast("list[bool]", chance.right.coins(probs * probs))


OF_A_RULE: dict[str, Callable[[Verify], Verify]] = {
    "the residual is p": _residual,
    "q is that of the first token": _with(_stale),
    "the last accepted token is dropped": _dropped,
    "siblings are swapped": _with(_swapped),
    "p is that after another token": _with(_other_row),
    "one uniform number serves all coins": _chance_of(coins=_first_coin),
    "coins are less likely": _chance_of(coins=_squared),
    "the likeliest token is taken": _chance_of(categorical=lambda _, probs: int(probs.argmax())),
}

WITHOUT_Q = "the rule draws from p, whatever q is"
NO_COINS, NO_DRAW = "the rule tosses no coin", "the rule draws no token by itself"
EQUIVALENT: dict[tuple[str, str], str] = {
    **{
        (rule, name): NO_COINS
        for rule in ("sample_match", "gumbel", "typical")
        for name in ("one uniform number serves all coins", "coins are less likely")
    },
    **{
        (rule, "q is that of the first token"): WITHOUT_Q
        for rule in ("sample_match", "gumbel", "typical")
    },
    ("gumbel", "the likeliest token is taken"): NO_DRAW,
    **{(rule, "the residual is p"): "the residual is p" for rule in ("rejection", "typical")},
}
"""By rule and fault, why nothing can find it."""


def _pick(index: int, *arguments: Any) -> Any:
    return arguments[index]


OTHERS: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
    (
        "core/contract/sampling.py",
        "Sampling.probs",
        "without temperature and cuts",
        lambda _: lambda self, logits: logits.softmax(-1),
    ),
    (
        "core/contract/sampling.py",
        "Sampling.exact",
        "q is not warped",
        lambda _: lambda self, logits: logits.double().softmax(-1),
    ),
    (
        "core/contract/sampling.py",
        "Sampling.exact",
        "q is smoothed",
        lambda right: lambda *given: right(*given).add(0.01).div(1 + 0.01 * len(given[1])),
    ),
    (
        "core/contract/sheet.py",
        "checked_logits",
        "any logits are taken",
        lambda _: partial(_pick, 0),
    ),
    (
        "core/contract/chance.py",
        "SampledChance.coins",
        "one uniform number serves all coins",
        lambda right: lambda self, probs: [right(copy.deepcopy(self), p[None])[0] for p in probs],
    ),
    (
        "core/contract/chance.py",
        "SampledChance.categorical",
        "tokens repeat their number",
        lambda right: lambda self, probs: right(copy.deepcopy(self), probs),
    ),
    (
        "core/contract/chance.py",
        "SampledChance.named",
        "all parts share one generator",
        lambda _: lambda self, name: type(self)(self._key),
    ),
    (
        "core/contract/chance.py",
        "SampledChance.race",
        "all positions share their noise",
        lambda right: lambda self, probs, position: right(self, probs, 0),
    ),
    (
        "core/testing/enumerated.py",
        "EnumeratedChance.coins",
        "coins are less likely",
        lambda right: lambda self, probs: right(self, probs * probs),
    ),
    (
        "core/contract/draft.py",
        "Draft.path",
        "the path lacks its last node",
        lambda right: lambda self, node: right(self, node)[:-1],
    ),
    (
        "core/contract/draft.py",
        "Draft.children",
        "one child too few",
        lambda right: lambda self, node: right(self, node)[:-1],
    ),
    (
        "core/decoding/kinds.py",
        "violation",
        "every draft is of its kind",
        lambda _: lambda *_: None,
    ),
    (
        "core/contract/constraint.py",
        "Guide.steered",
        "drafts are not steered",
        lambda _: lambda self, logits: logits,
    ),
    (
        "core/contract/constraint.py",
        "constrained",
        "the target is not constrained",
        lambda _: partial(_pick, 3),
    ),
    (
        "core/contract/verifier.py",
        "Scores.after",
        "p is that after another token",
        lambda right: lambda self, node: right(self, max(node - 1, -1)),
    ),
    (
        "core/decoding/token_logprobs.py",
        "token_logprobs",
        "log-probabilities are lost",
        lambda _: lambda *_: (),
    ),
)


def faults() -> Iterator[Fault]:
    """Yields all faults."""
    for rule in RULES:
        verify = "".join(word.title() for word in rule.split("_")) + ".verify"
        for name, patch in OF_A_RULE.items():
            if not (name == "siblings are swapped" and rule in CHAINS):
                why = EQUIVALENT.get((rule, name), "")
                yield Fault(f"verifiers/{RULE_FILES.get(rule, rule)}.py", verify, name, patch, why)
    for file, function, name, patch in OTHERS:
        yield Fault(file, function, name, patch)
