"""OptimalTransport: the rule that accepts one of two or three independent siblings most often."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import ROOT, Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.errors import DrafterError
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.selection import CLASSES, Selection, best_selection, ratio_classes
from outrider.verifiers.token import residual, token_rates


@final
class OptimalTransport(Verifier):
    """Selects a sibling by SpecTr's linear program (2310.15141, section 4), and tests it.

    The tokens are sorted into classes by their ratio p / q. The program says how often each class
    is selected, given the classes of all siblings. The first sibling of the selected class has the
    distribution m(x) = M(c) q(x) / q(c), where M(c) is how often its class c is selected in all. It
    is accepted with probability min(1, p(x) / m(x)), and otherwise replaced by a draw from
    norm(max(0, p - m)). Selecting first and testing once is the canonical decomposition of
    2410.18234.

    Lossless, however well the program is solved. At each node no lossless rule accepts more, if
    there are no more ratios than classes (24 for two siblings, 12 for three). In larger
    vocabularies neighbouring ratios share a class, and the rule comes close to that ceiling. With
    one sibling it is the token rule.

    Raises `DrafterError` for more than three siblings: use `k_seq` for those.
    """

    lossless = True
    takes = frozenset({"chain", "paths", "iid"})

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        accepted: list[int] = []
        node = ROOT
        while children := draft.children(node):
            p = scores.after(node).double()
            p = p / p.sum()
            q = draft.distribution(children[0], p).double()
            chosen, m = _selected(draft, children, p, q, chance)
            token = draft.tokens[chosen]
            if not chance.coins((p[token] / m[token])[None])[0]:
                rest = residual(p, m, token)
                return Verdict(tuple(accepted), chance.categorical(rest))
            accepted.append(chosen)
            node = chosen
        return Verdict(tuple(accepted), chance.categorical(scores.after(node)))

    def accepts(
        self, q: Float[Tensor, "vocab"], scores: Scores, node: int
    ) -> Float[Tensor, "vocab"]:
        return token_rates(q, scores, node)


def _selected(
    draft: Draft,
    children: list[int],
    p: Float[Tensor, "vocab"],
    q: Float[Tensor, "vocab"],
    chance: Chance,
) -> tuple[int, Float[Tensor, "vocab"]]:
    """Returns the sibling to test, and the distribution m that it has."""
    if len(children) == 1:
        return children[0], q
    if len(children) not in CLASSES:
        raise DrafterError(
            f"wrote {len(children)} siblings: optimal_transport takes up to {max(CLASSES)}"
        )
    classes = ratio_classes(p, q, CLASSES[len(children)])
    of_p, of_q = (torch.zeros(int(classes.max()) + 1, dtype=p.dtype) for _ in range(2))
    of_p = of_p.to(p.device).index_add_(0, classes, torch.where(q > 0, p, 0.0))
    of_q = of_q.to(p.device).index_add_(0, classes, q)
    best = best_selection(tuple(of_p.tolist()), tuple(of_q.tolist()), len(children))
    marginal = torch.tensor(best.marginal, dtype=p.dtype, device=p.device)
    return _first_of(best, draft, children, classes, chance), (marginal / of_q)[classes] * q


def _first_of(
    best: Selection, draft: Draft, children: list[int], classes: Tensor, chance: Chance
) -> int:
    """Draws a class, and returns its first sibling."""
    members = [int(classes[draft.tokens[child]]) for child in children]
    rates = best.chosen[tuple(sorted(members))]
    drawn = chance.categorical(torch.tensor([*rates.values()], dtype=torch.float64))
    return children[members.index([*rates][drawn])]


@hookimpl
def register_verifiers(register: Register) -> None:
    register("optimal_transport", OptimalTransport)
