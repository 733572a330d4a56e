"""DFlash: a few layers on several states of the target fill a block of masks in one pass."""

from collections.abc import Sequence
from typing import Annotated, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.bounds import Share, checked
from outrider.base.errors import ConfigError, require
from outrider.base.expectations import AtLeast
from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.programs import at_once, can_draw_ahead
from outrider.drafters.dflash.config import DFlashConfig
from outrider.drafters.dflash.corrector import Block, CorrectorConfig
from outrider.drafters.dflash.network import DFlashNetwork
from outrider.drafters.dflash.published import EMBEDDING
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.features import LOWEST, state_names
from outrider.drafters.parts.networks.layer import Ids, States
from outrider.drafters.parts.networks.text_rows import TextRows
from outrider.drafters.parts.networks.trained import TrainedDrafter
from outrider.drafters.parts.trees.shapes import NextLogits


@final
class BlockRows(TextRows):
    """Drafts for any texts by a pass over a block after each of them."""

    def _read(
        self, ids: Ids, slots: Ids, *features: States, width: int, rows: slice = slice(None)
    ) -> States:
        self._cache.write_to(rows, slots, width)
        fused: Tensor = self._network.read(features, slots, self._cache)
        return fused

    def _program(
        self, depth: int, width: int, numbers: Int[Tensor, "texts count+3"], *features: States
    ) -> Any:
        first, last, ids = numbers[:, :1], numbers[:, 1:2], numbers[:, 2:-1]
        network, size = self._network, self._network.config.block
        places = torch.arange(max(size, ids.shape[1]), device=ids.device)
        text = self._read(ids, first + places[: ids.shape[1]], *features, width=width)
        newest, slots = ids.take_along_dim(last, 1), first + last + 1 + places[:size]
        seen = slots if network.config.causal else slots[:, -1:].expand_as(slots)
        sees = torch.arange(width, device=ids.device) <= seen[:, None, :, None]
        self._cache.write_to(slice(None), slots, width)
        masks = torch.full_like(slots[:, 1:], network.config.mask)
        states = network(torch.cat([newest, masks], dim=1), slots, sees, self._cache)
        places = states[:, size - network.config.drafted :]
        if network.corrector is None:
            drafted = self._spread(network.logits(places[:, :depth]))
            logits, after = at_once(drafted.transpose(0, 1))
        else:
            fused = text.take_along_dim(last[..., None], 1)[:, 0]
            logits, after = self._corrected(network.block(states, fused, numbers[:, -1]), newest)
        if self._foreseen is None:
            return logits, after
        foreseen = [network.foreseen(places[:, 0], newest[:, 0])]

        def foreseeing(drawn: Ids) -> Any:
            foreseen.append(network.foreseen(places[:, len(foreseen)], drawn[:, 0]))
            return after(drawn)

        return logits, foreseeing, foreseen

    def _corrected(self, block: Block, newest: Ids) -> Any:
        """Returns what a `Program` does. newest: the last token of each text."""
        correction, paths = self._network.corrector(block), newest[..., None]

        def corrected() -> Tensor:
            texts, nodes, known = paths.shape
            calls = paths.unbind(1) if texts > 1 else paths  # of one text, all in one call
            logits = torch.stack([correction(each, known - 1)[:, 0] for each in calls], dim=1)
            return self._spread(logits.view(texts, nodes, -1))

        def after(drawn: Ids, rows: Ids | None = None) -> Tensor:
            nonlocal paths
            before = paths if rows is None else paths.take_along_dim(rows[..., None], 1)
            paths = torch.cat([before, drawn[..., None]], dim=2)
            return corrected()

        return corrected(), after


@final
class DFlash(TrainedDrafter[DFlashNetwork]):
    """Drafts a block in one pass on the target's states (DFlash, 2602.06036).

    A pass always has a whole block, so the first tokens are the same for every gamma; a block of 8
    drafts up to 7. No token depends on those drawn before it in the draft, unless the network has a
    corrector: then each is drawn from the distribution that is corrected for those before it.

    path: a folder that `outrider train` has written, one of z-lab's DFlash, or a dflash of the
        speculators library; "untrained" for random weights.
    block: the size of blocks with random weights; trained weights have their own.
    corrector: likewise, what makes the tokens of a block depend on each other: a name in
        `outrider.drafters.dflash.corrector.CORRECTORS`. Defaults to nothing.
    confidence: how likely a token and all those before it must be to be accepted for the draft to
        have it, as far as the network's confidence head can tell. Defaults to no such limit. The
        head foresees a token before it is drawn, from the text and from those already drawn. What
        it says is a probability only once `outrider train recipe=calibration` has calibrated it.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    foreseen: the logits that the confidence head gave the last draft's tokens, in whichever text.

    Raises `ConfigError` if there is a limit, and a tree or no confidence head.
    """

    @checked("drafter")
    def __init__(
        self,
        path: str,
        block: Annotated[int, AtLeast(2)] = 8,
        corrector: str | None = None,
        confidence: Share | None = None,
        tree: Any = None,
    ) -> None:
        require(confidence is None or tree is None, "drafter.tree", tree, "none with a confidence")
        self.path: str = path
        self.confidence: float | None = confidence
        self.foreseen: list[float] = []
        self._survival = 1.0
        head = None if confidence is None else EMBEDDING
        kind = CorrectorConfig.of(corrector)  # refuses an unknown one
        super().__init__(DFlashNetwork, path, tree, block=block, corrector=kind, confident=head)
        layers = LOWEST
        if path != weights.UNTRAINED:
            layers = DFlashConfig.read(weights.folder("dflash", path)).layers
        self.needs: frozenset[str] = frozenset({"model", *state_names(layers)})

    def _start(self) -> None:
        if self.confidence is not None and self._network.confidence is None:
            raise ConfigError(
                f"drafter.confidence={self.confidence}: expected null, since the network at"
                f" {self._path} has no confidence head"
            )
        network = self._network
        sizes = {"layers": len(network.layers), "room": network.config.block}
        foreseen = None if self.confidence is None else self._is_likely
        self._rows = BlockRows(network, self._spread, self._programs, **sizes, foreseen=foreseen)
        self._caches, self._text = LayerCaches(len(network.layers)), Tokens([])

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        network, config = self._network, self._network.config
        features = [context.features[name] for name in network.reads if name in context.features]
        pen.limit(config.drafted)
        if not pen.open or len(features) < len(network.reads):
            return  # the target has not read the prompt yet
        if self._rows.grow([(context, pen)], self._shape):
            return
        known, size = len(context.tokens) - 1, config.block
        device = features[0].device
        block = [context.tokens[-1], *[config.mask] * (size - 1)]
        self._catch_up(context.tokens, features)
        tokens = placed(block, device)[None]
        positions = torch.arange(known, known + size, device=device)[None]
        sees = torch.ones(1, 1, size, known + size, dtype=torch.bool, device=device)
        if config.causal:
            sees = sees.tril(known)
        states = network(tokens, positions, sees, self._caches)
        self._caches.crop(known)
        places = states[:, size - config.drafted :]
        # At the start of a text, nothing has been read before its last token.
        text = [rows[None, max(known - 1, 0) : known] for rows in features]
        next_logits = self._next_logits(context.tokens, states, text, pen.gamma)
        if self.confidence is None:
            self._shape.grow(pen, next_logits)
            return
        path = [block[0]]
        while pen.open:
            place, before = len(path) - 1, torch.tensor([path[-1]], device=device)
            if not self._is_likely(place, float(network.foreseen(places[:, place], before))):
                return
            path.append(pen.draw(next_logits([path[1:]])[0]))

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if self.confidence is None or all(can_draw_ahead(pen) for _, pen in pairs):
            super().propose_batch(pairs)
        else:
            Drafter.propose_batch(self, pairs)

    def _is_likely(self, place: int, logit: float) -> bool:
        """Returns whether a draft is to have its next token, and keeps what is foreseen of it."""
        if place == 0:
            self.foreseen.clear()
            self._survival = 1.0
        self._survival *= self._network.config.survival(place, logit)
        is_likely = self._survival >= (self.confidence or 0)
        if is_likely:
            self.foreseen.append(logit)
        return is_likely

    def _next_logits(
        self,
        tokens: Tokens,
        states: Float[Tensor, "1 rows w"],
        text: Sequence[Float[Tensor, "1 token width"]],
        count: int,
    ) -> NextLogits:
        """Returns what maps the paths of a draft to the logits of the next token.

        tokens: the text. states: at all tokens of the block.
        text: the target's states at the token before the last, if there is one.
        count: how many places are needed, if none depends on the others.
        """
        network = self._network
        if network.corrector is None:
            places = states[0, states.shape[1] - network.config.drafted :]
            logits = self._spread(network.logits(places[:count]))
            return lambda paths: logits[len(paths[0])].expand(len(paths), -1)
        earlier = placed(tokens[-2:][:1], states.device)
        correction = network.corrector(network.block(states, network.fused(text).sum(1), earlier))

        last = placed(tokens[-1:], states.device)

        def next_logits(paths: Sequence[Sequence[Any]]) -> Tensor:
            drawn = placed([token for path in paths for token in path], states.device)
            before = torch.cat(
                [last.expand(len(paths), 1), drawn.view(len(paths), len(paths[0]))], dim=1
            )
            return self._spread(correction(before, before.shape[1] - 1)[:, 0])

        return next_logits

    def _catch_up(self, text: Tokens, features: Sequence[Float[Tensor, "tokens width"]]) -> None:
        """Reads what is new in a text, except its last token."""
        count = len(text) - 1
        known = min(self._text.shared(text), count, len(self._caches))
        self._caches.crop(known)
        if known == count:
            return
        self._text = Tokens([])  # an interrupted pass leaves the caches in an unknown state
        positions = torch.arange(known, count, device=features[0].device)[None]
        self._network.read([rows[None, known:count] for rows in features], positions, self._caches)
        self._text = Tokens(text[:count])
