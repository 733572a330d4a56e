"""Trained drafters: what networks that are trained for a target, and their drafters, share."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.programs import can_draw_ahead, play_chains
from outrider.contract.target import Target
from outrider.contract.tree_programs import play_nodes
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.layer import Known, State
from outrider.drafters.parts.networks.logits import PLAIN, LogitRule, require_readable
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.drafters.parts.networks.weights import BorrowedHead
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.placement import home


class TrainedNetwork(nn.Module, ABC):
    """A network that is trained for one target, and kept as a checkpoint in a folder.

    Every family is constructed as `Network(target, vocabulary, **options)`, with random weights.

    family: the name of its drafter, and of the folder of its weights in the package.
    vocabulary: the tokens that it can draft.
    stages: how many tokens a draft can have; None for no limit.
    borrowed_head: the target's output matrix, if the network has none of its own.
    """

    family: ClassVar[str]
    vocabulary: Vocabulary
    stages: int | None = None
    borrowed_head: BorrowedHead | None = None
    _own_tables: Mapping[str, Tensor] = MappingProxyType({})

    @classmethod
    @abstractmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        """Returns the network in a folder; raises `ConfigError` if it does not fit the target."""

    @abstractmethod
    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network into a folder, in half precision and its family's published layout."""

    def _embed(self, target: Target, own: Float[Tensor, "vocab width"] | None = None) -> None:
        """Takes embeddings: its own, which are saved with the network, or the target's."""
        self._embedding = weights.embedding(target).detach() if own is None else own
        self._own_tables = {} if own is None else {weights.EMBEDDING: own}

    def _write(
        self, folder: Path, target: Target, tensors: Mapping[str, Tensor], **entries: Any
    ) -> None:
        """Writes tensors by their published names, its tables and vocabulary, and a config."""
        tables = {**self._own_tables, **self.vocabulary.tensors()}
        config = {**entries, **weights.target_sizes(target)}
        checkpoint.write_checkpoint(folder, {**tensors, **tables}, config, torch.float16)

    @classmethod
    def untrained(
        cls, target: Target, vocabulary: Vocabulary, *, seed: int = 0, **options: Any
    ) -> Self:
        """Returns a network with random weights. options: those of the family's constructor."""
        if vocabulary.ids is not None:  # a copy for each token would be waited for
            vocabulary.ids = placed(vocabulary.ids, home(target.model))
        return weights.with_random_weights(lambda: cls(target, vocabulary, **options), target, seed)

    @classmethod
    def load(cls, path: str | None, target: Target, **untrained: Any) -> Self:
        """Returns the network that a drafter's setting `path` names.

        path: a folder, "untrained" for random weights, or None for the weights for SmolLM2 that
            come with the package.
        untrained: options of the constructor that count for random weights only.
        """
        if path == weights.UNTRAINED:
            return cls.untrained(target, Vocabulary(target.vocab_size), **untrained)
        return cls.read_checkpoint(weights.folder(cls.family, path), target)

    @classmethod
    def with_tensors(
        cls,
        tensors: Mapping[str, Tensor],
        file: Path,
        target: Target,
        vocabulary: Vocabulary,
        **options: Any,
    ) -> Self:
        """Returns a network with the tensors of a file, prepared by the target's engine.

        Raises `ConfigError` if a tensor does not fit. options: those of the family's constructor.
        """
        network = cls.untrained(target, vocabulary, **options)
        checkpoint.load_tensors(network, tensors, file)
        engine = engine_of(target.model)
        engine.prepare_network(network)
        if network.borrowed_head is not None:
            network.borrowed_head.prepare(engine)
        return network


Network = TypeVar("Network", bound=TrainedNetwork)
Spread = Callable[[Known], Float[Tensor, "*batch vocab"]]
"""Returns logits over the target's vocabulary, from the products of the network's head."""


class TrainedDrafter(Drafter, Generic[Network]):
    """A drafter whose network is loaded when it is bound to a target.

    network_class: the family of its network.
    path: the network's folder, as in `TrainedNetwork.load`.
    tree: the shape of its drafts, as in `outrider.drafters.parts.trees.tree_forms`.
    untrained: options of the network that count for random weights only.

    Raises `ConfigError` in `bind` if the weights don't fit the target; it names the tensor.
    """

    _rows: Any = None  # drafts for several texts at once: `TextRows`
    _is_shared = False  # by several texts

    def __init__(
        self, network_class: type[Network], path: str | None, tree: Any, **untrained: Any
    ) -> None:
        self._network_class = network_class
        self._path = path
        self._untrained = untrained
        self._shape = parse_tree(tree)
        self.kind: str = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        require_readable(target, self.needs)
        self._target = None  # until everything is loaded, since loading may be interrupted
        self._network = self._network_class.load(self._path, target, **self._untrained)
        borrows = self._network.borrowed_head is not None
        rule, vocabulary = LogitRule.of(target) if borrows else PLAIN, self._network.vocabulary
        self._spread: Spread = lambda products: vocabulary.spread(rule(products))
        self._programs = engine_of(target.model).programs(self._network)
        self._start()
        self._target = target

    def open(self) -> Self:
        text = copy.copy(self)
        text._start()
        return text

    @property
    def in_rows(self) -> bool:
        """Returns whether one pass drafts for several texts: by default if it is recorded."""
        can_play = self._programs is not None and (self._shape.plays or not self.trees)
        return can_play and self._rows is not None

    def open_together(self) -> Self | None:
        together = self.open() if self.in_rows else None
        if together is not None:
            together._is_shared = True
        return together

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if self._programs is None or not self.in_rows:
            super().propose_batch(pairs)
            return
        for _, pen in pairs:
            pen.limit(self._network.stages or pen.gamma)
        if self.trees:
            if not (self._is_shared and self._rows.grow(pairs, self._shape)):
                super().propose_batch(pairs)
            return
        # The lab asks for one text at each of its positions: one after the other reads it once.
        for texts in [pairs] if self._is_shared else [[pair] for pair in pairs]:
            self._rows.draft(texts)

    def _start(self) -> None:
        """Begins a text with empty caches; called when a network has been loaded, and by `open`."""


class StateDrafter(TrainedDrafter[Network]):
    """Drafts from the state that gave the last token; recorded drafts of several texts at once."""

    _rows = ()  # a program is given all that it reads
    _reads_newest = True  # whether a program is given the newest token of each text
    needs: frozenset[str] = frozenset({"model", HIDDEN})

    def propose(self, context: Context, pen: Pen) -> None:
        self.propose_batch([(context, pen)])

    @torch.no_grad()
    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        ready = [pair for pair in pairs if pair[1].open and HIDDEN in pair[0].features]
        states = [self._last_state(it.tokens, it.features[HIDDEN]) for it, _ in ready]
        newest, pens = [it.tokens[-1] for it, _ in ready], [pen for _, pen in ready]
        for pen in pens:
            pen.limit(self._network.stages or pen.gamma)
        if not (ready and self._write(dict(enumerate(pens)), states, newest)):
            for text in zip(pens, states, newest, strict=True):
                self._grow(*text)

    def _write(self, pens: Mapping[int, Pen], states: list[State], newest: list[int]) -> bool:
        """Writes drafts by one program, and returns whether that is possible."""
        if (programs := self._programs) is None:
            return False
        rows = 1 << (len(pens) - 1).bit_length()
        missing = rows - len(pens)
        every, ids = [*states, *states[:1] * missing], [*newest, *newest[:1] * missing]
        first = torch.stack(every) if rows > 1 else every[0][None]
        given = [first, placed(ids, first.device)] if self._reads_newest else [first]
        program = partial(self._program, max(pen.gamma for pen in pens.values()))

        def play(_: Any, key: Hashable, grown: Any, __: int, shares: Tensor) -> list[Tensor]:
            return play_nodes(programs, program, given, key=key, grown=grown, shares=shares)

        if self.trees:
            return self._shape.play(pens, play, rows)
        if ahead := all(map(can_draw_ahead, pens.values())):
            play_chains(pens, programs, program, given, rows=rows)
        return ahead

    def _last_state(self, text: Tokens, states: Float[Tensor, "tokens width"]) -> State:
        """Returns the state that a draft begins with. states: the target's; the newest has none."""
        return states[len(text) - 2]

    @abstractmethod
    def _grow(self, pen: Pen, state: State, newest: int) -> None:
        """Writes a draft that begins with a state and the newest token."""

    @abstractmethod
    def _program(
        self, depth: int, states: Float[Tensor, "texts width"], *newest: Int[Tensor, "texts"]
    ) -> Any:
        """Returns what a `Program` does, of drafts of some depth."""


class StagedNetwork(TrainedNetwork):
    """Predicts the first token of a draft from the target's state and the newest token.

    Each stage makes its state from that of the stage before and the token drafted from it.
    """

    def start(self, state: State) -> State:
        """Returns what the first stage reads, from the target's state."""
        return state

    @abstractmethod
    def forward(self, stage: int, state: State, tokens: Int[Tensor, "*batch"]) -> State:
        """Returns the state of a stage, from that of the stage before and the newest token."""

    @abstractmethod
    def logits(self, stage: int, state: State) -> Known:
        """Returns the logits of the token that a stage predicts, from its state."""


Stages = TypeVar("Stages", bound=StagedNetwork)


class StagedDrafter(StateDrafter[Stages]):
    """Drafts from the state that gave the last token, stage by stage."""

    def _grow(self, pen: Pen, state: State, newest: int) -> None:
        network, start = self._network, self._network.start(state)
        states: dict[tuple[Any, ...], Tensor] = {}

        def next_logits(paths: Sequence[Sequence[Any]]) -> Tensor:
            stage = len(paths[0])
            before = [states[tuple(path[:-1])] if path else start for path in paths]
            tokens = [path[-1] if path else newest for path in paths]
            after = network(stage, torch.stack(before), placed(tokens, start.device))
            states.update((tuple(path), state) for path, state in zip(paths, after, strict=True))
            return self._spread(network.logits(stage, after))

        self._shape.grow(pen, next_logits)

    def _program(
        self, depth: int, states: Float[Tensor, "texts width"], *newest: Int[Tensor, "texts"]
    ) -> Any:
        network, of_stages = self._network, [self._network.start(states)[:, None]]

        def after(tokens: Tensor, rows: Tensor | None = None) -> Tensor:
            stage, before = len(of_stages) - 1, of_stages[-1]
            if rows is not None:
                before = before.take_along_dim(rows[..., None], 1)
            of_stages.append(network(stage, before, tokens))
            return self._spread(network.logits(stage, of_stages[-1]))

        return after(newest[0][:, None]), after
