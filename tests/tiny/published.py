"""Tests of every family with published networks: their drafts, saving them, what is refused."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from outrider import ConfigError
from outrider.drafters.parts.checkpoint import find_tensors
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after
from tiny.checkpoints import change, write
from tiny.drafters import bound
from tiny.parts import held

TEXT = [3, 7, 7, 2, 9, 4, 11, 5, 6]
CALLS = ((6, 9), (9, 3), (9, 1), (4, 4), (7, 5))
"""Lengths of the text, and gammas: the text goes on, comes again, goes back, and is another one."""

Tensors = dict[str, Tensor]
Refused = Mapping[str, tuple[Mapping[str, Any], Mapping[str, Tensor | None]]]
SIZES = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")


def name_of(variant: Any) -> str:
    """Returns what a variant is called in the ids of tests, the same in every process."""
    return getattr(variant, "__name__", str(variant))


class PublishedNetwork:
    """Base of a family's tests, which gives a layout and a reference.

    drafter, network: the family's classes.
    variants: several published networks.
    longest: the most tokens of a draft; None for no limit.
    refused: by what the error says, entries of the config and tensors that are changed.
    file: the name of the weights.
    sizes: of the target.
    """

    drafter: ClassVar[Any]
    network: ClassVar[Any]
    variants: ClassVar[Sequence[Any]] = ("published",)
    longest: ClassVar[int | None] = None
    refused: ClassVar[Refused] = {}
    file: ClassVar[str] = "model.safetensors"
    sizes: ClassVar[Mapping[str, Any]] = {}

    def layout(self, model: Any, variant: Any) -> tuple[dict[str, Any], Tensors]:
        """Returns the config and the tensors of a published network."""
        raise NotImplementedError

    def reference(
        self, model: Any, tensors: Tensors, text: list[int], drafted: list[int], variant: Any
    ) -> Sequence[Tensor]:
        """Returns the distribution of each drafted token, computed by other means."""
        raise NotImplementedError

    def saved(self, tensors: Tensors) -> Tensors:
        """Returns the tensors as they are saved."""
        return tensors

    def target(self, llama: Callable[..., Any], variant: Any = None) -> TransformersTarget:
        return TransformersTarget(llama(num_hidden_layers=5, eos_token_id=None, **self.sizes))

    def folder(self, path: Path, target: TransformersTarget, variant: Any) -> Tensors:
        """Writes a published network into a folder; returns its tensors."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            config, tensors = self.layout(target.model, variant)
        tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        if self.file.endswith(".safetensors"):
            write(path, config, tensors)
        else:
            torch.save(tensors, path / self.file)
            (path / "config.json").write_text(json.dumps(config))
        return tensors

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "variant" in metafunc.fixturenames:
            metafunc.parametrize("variant", self.variants, ids=name_of)
        if "line" in metafunc.fixturenames:
            metafunc.parametrize("line", self.refused)

    def test_drafts_have_the_distributions_of_the_published_network(
        self, variant: Any, llama: Any, tmp_path: Path
    ) -> None:
        target = self.target(llama, variant)
        tensors = self.folder(tmp_path, target, variant)
        drafter = bound(self.drafter(path=str(tmp_path)), target)
        for length, gamma in CALLS:
            draft = draft_after(drafter, target, TEXT[:length], gamma, seed=length)
            assert len(draft) == min(gamma, self.longest or gamma)
            with torch.no_grad():
                right = self.reference(
                    target.model, tensors, TEXT[:length], [*draft.tokens], variant
                )
            for probs, exact in zip(draft.probs, right, strict=True):
                torch.testing.assert_close(probs, exact.double(), rtol=1e-4, atol=1e-5)

    def test_a_tree_has_the_distributions_of_its_paths(self, llama: Any, tmp_path: Path) -> None:
        variant = self.variants[0]
        target = self.target(llama, variant)
        tensors = self.folder(tmp_path, target, variant)
        drafter = bound(self.drafter(path=str(tmp_path), tree="2x2x1"), target)
        for length in (6, 9):
            draft = draft_after(drafter, target, TEXT[:length], 3, seed=length)
            assert len(draft) == (10 if self.longest != 2 else 6)
            for node in set(draft.calls):  # the first of its siblings
                path = [draft.tokens[step] for step in draft.path(node)]
                with torch.no_grad():
                    right = self.reference(target.model, tensors, TEXT[:length], path, variant)
                exact = right[-1].double()
                torch.testing.assert_close(draft.probs[node], exact, rtol=1e-4, atol=1e-5)

    def test_a_saved_network_has_the_published_tensors(
        self, variant: Any, llama: Any, tmp_path: Path
    ) -> None:
        target = self.target(llama, variant)
        right = self.saved(self.folder(tmp_path, target, variant))
        drafter = bound(self.drafter(path=str(tmp_path)), target)
        network = held(drafter, self.network)
        network.save_checkpoint(tmp_path / "again", target)
        written = find_tensors(tmp_path / "again")[1]
        assert set(written) == set(right)
        for name, tensor in right.items():
            half = tensor.half() if tensor.is_floating_point() else tensor
            torch.testing.assert_close(written[name], half.to(written[name].dtype))
        again = self.network.read_checkpoint(tmp_path / "again", target)
        assert getattr(again, "config", None) == getattr(network, "config", None)
        for name, tensor in network.state_dict().items():
            assert torch.equal(again.state_dict()[name], tensor.half().float())

    def test_other_networks_are_refused(self, line: str, llama: Any, tmp_path: Path) -> None:
        target = self.target(llama, self.variants[0])
        self.folder(tmp_path, target, self.variants[0])
        change(tmp_path, *self.refused[line])
        with pytest.raises(ConfigError, match=line):
            self.drafter(path=str(tmp_path)).bind(target)


def part_of(tensors: Tensors, prefix: str) -> Tensors:
    """Returns the tensors whose names have a prefix, without it."""
    return {
        name.removeprefix(prefix): rows for name, rows in tensors.items() if name.startswith(prefix)
    }


def sizes_of(model: Any) -> dict[str, Any]:
    """Returns the sizes of a model's layers, as entries of a config."""
    return {name: getattr(model.config, name) for name in SIZES} | {"vocab_size": 31}


def hidden(model: Any, text: list[int], *layers: int) -> Tensor:
    """Returns the states before a text's last token, [1, tokens, width]; by default the last."""
    states = model(torch.tensor([text[:-1]]), output_hidden_states=True).hidden_states
    return torch.cat([states[layer] for layer in layers or (-1,)], dim=-1)


def fed_back(
    states: Tensor,
    text: list[int],
    drafted: list[int],
    step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> list[Tensor]:
    """Returns the distributions of a network that reads its own states after those of a text.

    step: maps states and the tokens after them to the next states, and their logits.
    """
    tokens, probs = torch.tensor([text[1:]]), []
    for token in drafted:
        after, logits = step(states, tokens)
        probs.append(logits[0, -1].softmax(-1))
        states = torch.cat([states, after[:, -1:]], dim=1)
        tokens = torch.cat([tokens, torch.tensor([[token]])], dim=1)
    return probs


def causal_mask(count: int) -> Tensor:
    """Returns the additive mask of a chain of tokens."""
    return torch.full((count, count), float("-inf")).triu(1)[None, None]
