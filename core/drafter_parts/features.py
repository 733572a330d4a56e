"""Drafting on features: a small network goes on where the target's hidden states end."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from outrider.contract.context import Context, Tokens
from outrider.contract.pen import Pen
from outrider.drafter_parts.branches import Branches
from outrider.drafter_parts.layer import KeysAndValues
from outrider.drafter_parts.trees import Shape
from outrider.drafter_parts.vocabulary import Vocabulary


class FeatureNetwork(nn.Module, ABC):
    """Predicts, from the state at a place and the token after it, the state at the next place.

    reads: the features of the target that it is given.
    vocabulary: the tokens that it can write.
    """

    reads: tuple[str, ...]
    vocabulary: Vocabulary

    @abstractmethod
    def states(self, features: Sequence[Float[Tensor, "*rows width"]]) -> Float[Tensor, "*rows w"]:
        """Returns what the network reads of the target's features, in the order of `reads`."""

    @abstractmethod
    def forward(
        self,
        states: Float[Tensor, "batch tokens w"],
        tokens: Int[Tensor, "batch tokens"],
        positions: Int[Tensor, "batch tokens"],
        reach: Bool[Tensor, "batch 1 tokens all"] | None,
        cache: KeysAndValues,
    ) -> Float[Tensor, "batch tokens w"]:
        """Returns the state at the place of each token.

        states, positions: of the place before each token.
        reach: what each sees of all, the cached ones first; none for a chain.
        """

    @abstractmethod
    def logits(self, states: Float[Tensor, "*rows w"]) -> Float[Tensor, "*rows some"]:
        """Returns scores of what follows each state, over the network's vocabulary."""


@final
class FeatureDrafting:
    """One network's drafts, with a cache that is keyed by the text before.

    What it computed from states that it predicted itself is dropped once the draft is written:
    next time the target's own states are there (2401.15077, section 3.1).
    """

    def __init__(self, network: FeatureNetwork) -> None:
        self._network = network
        self._cache = KeysAndValues()
        self._known = Tokens([])

    @torch.no_grad()
    def draft(self, context: Context, pen: Pen, shape: Shape) -> None:
        """Writes a draft of that shape; none before the target has read the prompt."""
        features = [context.features.get(name) for name in self._network.reads]
        if not pen.open or any(rows is None for rows in features):
            return
        last = self._catch_up(context.tokens, [rows for rows in features if rows is not None])
        base, known = self._scores(last), len(self._cache)
        branches = Branches(known)
        states: dict[tuple[int, ...], Tensor] = {(): last[0, 0]}

        def probs(nodes: Sequence[int], paths: Sequence[Sequence[int]]) -> Tensor:
            if not paths[0]:
                return base
            before = torch.stack([states[tuple(path[:-1])] for path in paths])
            depth = known + len(paths[0]) - 1
            reach = branches.reach(paths).to(last.device)[None, None]
            tokens = [path[-1] for path in paths]
            after = self._feed(before, tokens, [depth] * len(paths), reach)
            for path, state in zip(paths, after[0], strict=True):
                states[tuple(path)] = state
            return self._scores(after)

        shape.grow(pen, probs)
        self._cache.crop(known)

    def _catch_up(self, text: Tokens, features: Sequence[Tensor]) -> Float[Tensor, "1 1 w"]:
        """Returns the state at the newest token, feeding only what the cache lacks."""
        # A place takes the state there and the token after it; the last one is fed again, since
        # the cache holds no states.
        places = len(text) - 1
        known = max(0, min(self._known.shared(text) - 1, len(self._cache), places - 1))
        self._cache.crop(known)
        self._known = Tokens(text[:])
        states = self._network.states([rows[known:places] for rows in features])
        return self._feed(states, text[known + 1 :], list(range(known, places)), None)[:, -1:]

    def _feed(
        self, states: Tensor, tokens: list[int], positions: list[int], reach: Tensor | None
    ) -> Float[Tensor, "1 tokens w"]:
        device = states.device
        out: Tensor = self._network(
            states[None],
            torch.tensor([tokens], device=device),
            torch.tensor([positions], device=device),
            reach,
            self._cache,
        )
        return out

    def _scores(self, states: Float[Tensor, "1 rows w"]) -> Float[Tensor, "rows vocab"]:
        return self._network.vocabulary.spread(self._network.logits(states[0]))
