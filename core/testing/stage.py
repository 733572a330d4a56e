"""The stage: tiny targets with known conditionals, and drafters that write every kind of draft."""

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, final

import torch

from outrider.contract.chance import SampledChance
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verdict
from outrider.runtime.cached_model import CACHE, HIDDEN, SOURCE
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

VOCAB_SIZE = 4
"""The vocabulary of the targets that drafters are checked on: 4 ** 3 texts of three tokens."""
SAMPLED = Sampling(temperature=1.0)
CHAINS = ("drawn", "written", "mixed", "exact", "disjoint", "silent", "short")
"""The kinds of `ChainDrafter`."""
TREES = ("paths", "iid", "distinct", "deterministic")
"""The kinds of `TreeDrafter`."""
Shape = Mapping[tuple[int, ...], int]
"""The number of children of each node that has some, by its path of ranks: () is the root."""


def stage(drafter: Drafter, vocab_size: int = VOCAB_SIZE) -> Target:
    """Returns a tiny target that offers what `drafter` needs, and binds the drafter to it.

    Raises:
        ConfigError: the drafter can't be bound to a vocabulary of this size.
    """
    target = unbound_stage(drafter, vocab_size)
    drafter.bind(target)
    return target


def unbound_stage(drafter: Drafter, vocab_size: int = VOCAB_SIZE) -> Target:
    """Returns the target of `stage`, of which the drafter knows nothing."""
    tabular = TabularTarget(vocab_size, encoder=SOURCE in drafter.needs)
    return tabular if drafter.needs <= tabular.offers else tiny_target(vocab_size)


def tiny_target(vocab_size: int, seed: int = 0) -> TransformersTarget:
    """Returns a random Llama with three layers in float64, and a tokenizer of one-letter words.

    Each call returns a model of its own. It is made and tested once, and then copied.
    """
    target = copy.copy(_tiny_target(vocab_size, seed))
    target.model = copy.deepcopy(target.model)
    return target


@cache
def _tiny_target(vocab_size: int, seed: int) -> TransformersTarget:
    import tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        initializer_range=0.5,  # for distributions far from uniform that differ after every text
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = LlamaForCausalLM(config).double()
    words = {chr(ord("a") + token): token for token in range(vocab_size)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="a"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    wrap: Any = PreTrainedTokenizerFast
    return TransformersTarget(model.eval(), wrap(tokenizer_object=backend))


def context_after(
    drafter: Drafter, target: Target, prompt: Sequence[int], text: Sequence[int] = ()
) -> Context:
    """Returns the context after a prompt and a text, with the features that the drafter needs."""
    before, source = target.begin(prompt)
    tokens = [*before, *text]
    needs_features = any(name == CACHE or name.startswith(HIDDEN) for name in drafter.needs)
    if not needs_features or len(tokens) < 2:
        return Context(Tokens(tokens), source)
    session = target.open(tokens[:-1], drafter.needs)
    session.score(Draft())
    session.commit(Verdict((), tokens[-1]))
    return Context(Tokens(tokens), None, session.features())


def play_drafts(
    drafter: Drafter,
    target: Target,
    contexts: Sequence[Context],
    *,
    gamma: int,
    sampling: Sampling,
    seed: int = 0,
) -> list[Draft]:
    """Returns the drafts after several contexts, written in one batch.

    seed: of the first draft; each further one gets the next seed.
    """
    pens = [
        Pen(
            sampling=sampling,
            chance=SampledChance.seeded(seed + index),
            vocab_size=target.vocab_size,
            gamma=gamma,
            budget=gamma * 4 if drafter.trees else None,
        )
        for index in range(len(contexts))
    ]
    drafter.propose_batch(list(zip(contexts, pens, strict=True)))
    return [pen.finish() for pen in pens]


def play_draft(
    drafter: Drafter,
    target: Target,
    context: Context,
    *,
    gamma: int,
    sampling: Sampling,
    seed: int = 0,
) -> Draft:
    """Returns the draft that `drafter` writes after `context`."""
    return play_drafts(drafter, target, [context], gamma=gamma, sampling=sampling, seed=seed)[0]


def draft_after(
    drafter: Drafter,
    target: Target,
    prompt: Sequence[int],
    gamma: int,
    *,
    sampling: Sampling = SAMPLED,
    seed: int = 0,
    text: Sequence[int] = (),
) -> Draft:
    """Returns the draft that `drafter` writes after a prompt and a text."""
    context = context_after(drafter, target, prompt, text)
    return play_draft(drafter, target, context, gamma=gamma, sampling=sampling, seed=seed)


def same_draft(one: Draft, other: Draft) -> bool:
    """Returns whether two drafts have the same tokens, parents and distributions."""
    if (one.tokens, one.parents) != (other.tokens, other.parents):
        return False
    return all(
        (p is None and q is None) or (p is not None and q is not None and torch.allclose(p, q))
        for p, q in zip(one.probs, other.probs, strict=True)
    )


@final
class ChainDrafter(Drafter):
    """Drafts chains of one kind, from a random table over the last two tokens.

    "drawn": every token is drawn from q. "written": the likeliest token of q is written.
    "mixed": drawn and written in turn. "exact": drawn from p itself. "disjoint": drawn from a q
    without mass on half of the tokens. "silent": nothing. "short": drawn, but ended after a token 0
    (which is legitimate, since that token was submitted).

    tied: round the logits to whole numbers, so that many of them are equal.
    """

    def __init__(
        self, target: TabularTarget, kind: str, seed: int = 7, *, tied: bool = False
    ) -> None:
        self._kind = kind
        self._logits = _table(target, seed, tied).logits
        if kind == "exact":
            self._logits = target.logits

    def propose(self, context: Context, pen: Pen) -> None:
        tokens = context.tokens[:]
        while pen.open and self._kind != "silent":
            logits = self._logits(tokens)
            if self._kind == "disjoint":
                logits = logits.clone()
                logits[len(tokens) % 2 :: 2] = float("-inf")
            if self._kind == "written" or (self._kind == "mixed" and len(tokens) % 2):
                tokens.append(pen.write(int(logits.argmax())))
            else:
                tokens.append(pen.draw(logits))
            if self._kind == "short" and tokens[-1] == 0:
                return


@final
class TreeDrafter(Drafter):
    """Drafts a tree, from a random table over the last two tokens.

    kind: one of `outrider.contract.draft.KINDS`. "deterministic" siblings are the likeliest tokens.
    shape: of the tree. Defaults to two siblings after each node; "paths" only branch at the root.
    tied: round the logits to whole numbers, so that many of them are equal.
    table: draft from this one in place of a random one.
    """

    def __init__(
        self,
        target: TabularTarget,
        kind: str,
        seed: int = 7,
        *,
        shape: Shape | None = None,
        tied: bool = False,
        table: TabularTarget | None = None,
    ) -> None:
        self.kind = kind
        self._shape = shape
        self._logits = (table or _table(target, seed, tied)).logits

    def propose(self, context: Context, pen: Pen) -> None:
        layer: list[tuple[int, tuple[int, ...]]] = [(ROOT, ())]
        texts = {ROOT: context.tokens[:]}
        for _ in range(pen.gamma):
            parents, layer = layer, []
            if self.kind == "paths" and parents[0][1] and pen.room < len(parents):
                return  # a rule for paths takes equal ones
            for parent, path in parents:
                width = self._width(path)
                if pen.room < width:
                    return
                children = self._children(self._logits(texts[parent]), width, pen, parent)
                for rank, node in enumerate(children):
                    texts[node] = [*texts[parent], pen.token(node)]
                    layer.append((node, (*path, rank)))

    def _width(self, path: tuple[int, ...]) -> int:
        if self.kind == "paths" and path:
            return 1
        return 2 if self._shape is None else self._shape.get(path, 0)

    def _children(self, logits: torch.Tensor, width: int, pen: Pen, parent: int) -> Sequence[int]:
        if not width:
            return ()
        if self.kind != "deterministic":
            return pen.branch(logits, width, replacement=self.kind != "distinct", after=parent)
        first = pen.last + 1
        for token in logits.topk(min(width, len(logits))).indices.tolist():
            if pen.room:
                pen.write(token, after=parent)
        return range(first, pen.last + 1)


@final
class SeparateDrafter(Drafter):
    """Draws siblings in separate calls of the pen, each from a random table of its own, without the
    tokens of those before it.

    siblings: how many.
    """

    kind = "distinct"

    def __init__(self, target: TabularTarget, siblings: int) -> None:
        self._tables = [_table(target, 7 + rank, tied=False) for rank in range(siblings)]

    def propose(self, context: Context, pen: Pen) -> None:
        for table in self._tables[: pen.room if pen.gamma else 0]:
            logits = table.logits(context.tokens[:]).clone()
            logits[[pen.token(node) for node in range(len(pen))]] = float("-inf")
            pen.draw(logits, after=ROOT)


def _table(target: TabularTarget, seed: int, tied: bool) -> TabularTarget:
    table = TabularTarget(target.vocab_size, 2, seed, sharpness=2.5)
    if tied:
        table.table = torch.round(table.table / 2)
    return table
