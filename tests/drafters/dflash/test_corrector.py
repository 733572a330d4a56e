"""Correctors: what a token's distribution may depend on, for each of them."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.parts import held

from outrider import Sampling
from outrider.drafters.dflash.corrector import (
    CORRECTORS,
    Backbone,
    Block,
    Corrector,
    CorrectorConfig,
)
from outrider.drafters.dflash.drafter import DFlash
from outrider.drafters.dflash.network import DFlashNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.transformers import TransformersTarget
from outrider.testing import parametrize_with_checks
from outrider.testing.tiny_targets import draft_after

TEXT = [3, 7, 7, 2, 9, 4, 11, 5, 6]
VOCAB, WIDTH, PLACES = 11, 8, 4
KNOWN = Vocabulary(VOCAB, torch.arange(0, VOCAB, 2))
SAMPLED = Sampling(temperature=1.0)


def drafter_with(kind: str) -> Callable[[], DFlash]:
    return partial(DFlash, "untrained", block=4, corrector=kind)


@parametrize_with_checks([drafter_with("lilicorr")])
def test_conformance(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


def shaken(network: torch.nn.Module, scale: float = 0.5) -> None:
    """Moves every weight, since some begin at 0."""
    torch.manual_seed(2)
    with torch.no_grad():
        for weight in network.parameters():
            weight += scale * torch.randn(weight.shape)


def corrector_of(kind: str, candidates: int = 3) -> Corrector:
    torch.manual_seed(1)
    backbone = Backbone(WIDTH, PLACES, PLACES + 1, KNOWN, torch.randn(VOCAB, WIDTH))
    corrector = CorrectorConfig(kind, rank=8, candidates=candidates).make(backbone)
    shaken(corrector)
    return corrector


def block_of(count: int) -> Block:
    torch.manual_seed(3)
    states, text = torch.randn(count, PLACES, WIDTH), torch.randn(count, WIDTH)
    start, earlier = torch.randn(count, 1, WIDTH), torch.arange(count)[:, None]
    return Block(states, torch.randn(count, PLACES, len(KNOWN)), text, start, earlier)


@pytest.mark.parametrize("kind", CORRECTORS)
class TestCorrector:
    def test_a_token_depends_on_those_before_it_and_on_no_later_one(self, kind: str) -> None:
        correction = corrector_of(kind, candidates=len(KNOWN))(block_of(1))
        before = torch.tensor([[2, 4, 0, 8]])
        logits = correction(before, 0)
        for changed in range(PLACES):
            other = before.clone()
            other[0, changed] = 6
            differs = (correction(other, 0) != logits).any(-1)[0]
            assert not differs[:changed].any()
            # The lattice knows the last token of the text by the backbone's states alone.
            assert differs[changed] == (kind != "lilicorr" or changed > 0)

    def test_blocks_are_corrected_apart(self, kind: str) -> None:
        corrector, block = corrector_of(kind), block_of(3)
        before = torch.tensor([[2, 4, 0, 8], [3, 0, 4, 6], [10, 2, 2, 2]])
        for row, logits in enumerate(corrector(block)(before, 0)):
            one = Block(*(getattr(block, part.name)[row : row + 1] for part in fields(Block)))
            torch.testing.assert_close(corrector(one)(before[row : row + 1], 0)[0], logits)

    def test_every_weight_learns(self, kind: str) -> None:
        corrector = corrector_of(kind)
        logits = corrector(block_of(3))(torch.tensor([[2, 4, 0, 8]] * 3), 0)
        logits.log_softmax(-1).masked_fill(logits.isneginf(), 0.0).square().sum().backward()
        for name, weight in corrector.named_parameters():
            assert weight.grad is not None and weight.grad.abs().sum() > 0, name

    @pytest.mark.parametrize("tree", [None, "2x2x1", "dynamic:3"])
    def test_a_draft_has_the_corrected_distributions(
        self, kind: str, tree: str | None, deep_llama: Any
    ) -> None:
        target = TransformersTarget(deep_llama())
        drafter = bound(DFlash("untrained", block=4, corrector=kind, tree=tree), target)
        network = held(drafter, DFlashNetwork)
        shaken(network.corrector, 0.1)
        blocks: list[Block] = []
        network.corrector.register_forward_pre_hook(lambda _, given: blocks.append(given[0]))
        draft = draft_after(drafter, target, TEXT, 3, seed=4)
        (block,) = blocks
        assert max(len(draft.path(node)) for node in range(len(draft))) > 1
        for node, logits in enumerate(draft.logits):
            path = [draft.tokens[above] for above in draft.path(node)]
            exact = network.corrector(block)(torch.tensor([[TEXT[-1], *path[:-1]]]), 0)[0, -1]
            if logits is not None:  # in a dynamic tree, tokens are chosen
                torch.testing.assert_close(logits, exact, rtol=1e-4, atol=1e-3)


class Own(Corrector):
    """A corrector of one's own."""

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()

    def forward(self, block: Block) -> Any:
        return lambda before, first: block.logits[:, first : before.shape[1]]


def test_a_corrector_of_ones_own_is_named_by_its_class() -> None:
    assert isinstance(corrector_of(f"{__name__}:Own"), Own)
