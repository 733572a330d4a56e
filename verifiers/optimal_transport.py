"""The rule that accepts one of two or three siblings most often."""

from collections.abc import Sequence
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.verifier import Probs, Scores, VerifierExample
from outrider.verifiers.ceiling import MOST_OF_THREE, joint_classes, membership
from outrider.verifiers.recursive import Recursive, Tested, descend, first
from outrider.verifiers.selection import CLASSES, best_selection, classes_apart, ratio_classes


@final
class OptimalTransport(Recursive):
    """Selects a sibling by SpecTr's linear program (2310.15141, section 4), and tests it.

    The tokens are sorted into classes by their ratio p / q. The program says how often a sibling is
    selected, given the classes of all siblings. The distribution m of the selected one follows from
    that. It is accepted with probability min(1, p(x) / m(x)), and otherwise replaced by a draw from
    norm(max(0, p - m)). Selecting first and testing once is the canonical decomposition of
    2410.18234.

    Lossless, however well the program is solved. At each node no lossless rule accepts more, if
    there are no more ratios than classes (24 for two siblings, 12 for three); for siblings without
    replacement, no more tokens. In larger vocabularies neighbours share a class, and the rule comes
    close to that ceiling.

    Of more than three siblings, the first three are judged together, then the next ones against
    what is left of p, as in recursive rejection. Siblings that separate calls of the pen wrote are
    judged one by one. Without replacement, only two are judged together if more than 2048 tokens
    have a nonzero probability. With one sibling it is the token rule.
    """

    takes: frozenset[str] = frozenset({"chain", "paths", "iid", "distinct"})
    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(p=(0.25, 0.75), q=(0.75, 0.25), siblings=2, accepted=0.6875),  # k_seq: .648
        VerifierExample(
            p=(0.25, 0.75), q=(0.75, 0.25), siblings=4, accepted=0.87109375
        ),  # of three: .828
        VerifierExample(
            p=(0.5, 0.3, 0.2), q=(0.2, 0.3, 0.5), siblings=2, kind="distinct", accepted=69 / 70
        ),
        # Tokens of one ratio p / q are told apart, so that q itself is always accepted.
        VerifierExample(
            p=(0.4, 0.3, 0.2, 0.1),
            q=(0.4, 0.3, 0.2, 0.1),
            siblings=2,
            kind="distinct",
            accepted=1.0,
        ),
    )

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return descend(draft, scores, chance, _select)


def _select(draft: Draft, siblings: Sequence[int], p: Probs, chance: Chance) -> Tested:
    """Returns a sibling as `Select` does: one of those that one call of the pen drew."""
    group, q = _group(draft, siblings), draft.probs[siblings[0]]
    if q is None or len(group) == 1:
        return first(draft, siblings, p, chance)
    q = wide(q, p.device)
    drawn = q > 0
    tokens = [draft.tokens[sibling] for sibling in group]
    # Without replacement, the first token is impossible for the second.
    distinct = not draft.distribution(group[1], q)[tokens[0]] > 0
    if distinct and drawn.sum() > MOST_OF_THREE:
        group, tokens = group[:2], tokens[:2]
    make = _of_distinct if distinct else _of_independent
    classes, rates, m = make(p[drawn], q[drawn], len(group))
    members = [int(classes[drawn[:token].sum()]) for token in tokens]
    weights = [rates[(*members[rank:], *members[:rank])] for rank in range(len(group))]
    chosen = group[chance.categorical(torch.stack(weights))]
    return chosen, torch.zeros_like(p).masked_scatter(drawn, m), siblings[len(group) :]


def _group(draft: Draft, siblings: Sequence[int]) -> list[int]:
    """Returns the first siblings, up to three, that one call of the pen drew.

    Their joint distribution is known from that of the first: they were drawn from it with or
    without replacement.
    """
    first = siblings[0]
    if not draft.calls:
        return [first]
    return [node for node in siblings[: max(CLASSES)] if draft.calls[node] == draft.calls[first]]


Selected = tuple[Int[Tensor, "n"], Float[Tensor, "classes ..."], Float[Tensor, "n"]]
"""The class of each token, the rates of `best_selection`, and the distribution m of the selected.

All of them are for the n tokens with q > 0.
"""


def _of_independent(p: Float[Tensor, "n"], q: Float[Tensor, "n"], siblings: int) -> Selected:
    classes = ratio_classes(p, q, CLASSES[siblings])
    member = membership(classes, q)
    of_q = q @ member
    expected = torch.full_like(q[0], siblings)
    for _ in range(siblings):
        expected = expected[..., None] * of_q
    rates = others = _best(p @ member, expected, siblings)
    for _ in range(siblings - 1):
        others = (others * of_q).sum(-1)
    return classes, rates, siblings * q * others[classes]


def _of_distinct(p: Float[Tensor, "n"], q: Float[Tensor, "n"], siblings: int) -> Selected:
    classes = classes_apart(p, q, CLASSES[siblings])
    member = membership(classes, q)
    joint = joint_classes(q, member, siblings)
    rates = _best(p @ member, torch.tensordot(member.T, joint, 1), siblings)
    return classes, rates, (joint * rates[classes]).flatten(1).sum(1)


def _best(of_p: Tensor, expected: Tensor, siblings: int) -> Float[Tensor, "classes ..."]:
    rates = best_selection(tuple(of_p.tolist()), tuple(expected.flatten().tolist()), siblings)
    return wide(rates, of_p.device)
