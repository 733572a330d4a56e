"""ReDrafter: conformance, Apple's files, and a beam search as a tree."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.checkpoints import change, write
from tiny.drafters import bound
from tiny.parts import held
from torch.nn.functional import linear, silu

from outrider import ConfigError, Sampling
from outrider.drafters.redrafter import ReDrafter, ReDrafterNetwork
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, write_draft

TEXT = [3, 9, 4]


@pytest.fixture(params=[(True, 12), (False, 12), (True, 32)], ids=["rnn", "sum", "wide"])
def published(request: pytest.FixtureRequest, llama: Any, tmp_path: Path) -> Any:
    """A head in Apple's layout, with and without recurrent matrices and a projection."""
    recurrent, inner = request.param
    generator = torch.Generator().manual_seed(2)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) / 3

    tensors = {
        "lm_head.0.linear.weight": noise(inner, inner),
        "lm_head.0.linear.bias": noise(inner),
    }
    tensors["lm_head.1.weight"] = noise(31, inner)
    if inner != 32:
        tensors |= {"input_proj.weight": noise(inner, 32), "input_proj.bias": noise(inner)}
    if recurrent:
        tensors |= {"rnn_u.weight": noise(16, 16), "rnn_u.bias": noise(16)}
        tensors["rnn_w.weight"] = noise(16, 16)
    config = {"hidden_size": 16, "vocab_size": 31, "exit_dim": inner, "num_draft_layers": 1}
    write(tmp_path, config | {"rnn": recurrent}, tensors)
    return TransformersTarget(llama()), tmp_path, tensors


def log_probs(
    tensors: dict[str, torch.Tensor], words: Any, state: torch.Tensor, tokens: list[int]
) -> torch.Tensor:
    """Returns log q after the target's state and the tokens that follow it."""

    def part(name: str, x: torch.Tensor) -> torch.Tensor:
        return linear(x, tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))

    memory = torch.zeros(16)
    for token in tokens:
        if "rnn_w.weight" in tensors:
            memory = silu(part("rnn_w", words[token]) + part("rnn_u", memory))
        else:
            memory = memory + words[token]
    x = torch.cat([state, memory])
    x = part("input_proj", x) if "input_proj.weight" in tensors else x
    x = x + silu(part("lm_head.0.linear", x))
    return part("lm_head.1", x).double().log_softmax(-1).detach()


def test_the_head_is_that_of_the_published_weights(published: Any) -> None:
    target, folder, tensors = published
    drafter = bound(ReDrafter(str(folder)), target)
    context = context_after(drafter, target, TEXT)
    draft = write_draft(drafter, target, context, gamma=6, sampling=Sampling(temperature=1.0))
    assert len(draft) == 6
    words, state = target.model.get_input_embeddings().weight, context.features["hidden_states"][1]
    for node, probs in enumerate(draft.probs):
        right = log_probs(tensors, words, state, [4, *draft.tokens[:node]]).exp()
        torch.testing.assert_close(probs, right, rtol=1e-4, atol=1e-5)
    again = folder / "again"
    held(drafter, ReDrafterNetwork).save_checkpoint(again, target)
    saved = ReDrafterNetwork.read_checkpoint(again, target).state_dict()
    for name, tensor in tensors.items():
        torch.testing.assert_close(saved[name], tensor.half().float())


def test_the_dynamic_tree_holds_the_beams_of_a_beam_search(published: Any) -> None:
    target, folder, tensors = published
    drafter, width = ReDrafter(str(folder), tree="dynamic:3"), 3
    drafter.bind(target)
    context = context_after(drafter, target, TEXT)
    draft = write_draft(drafter, target, context, gamma=6, sampling=Sampling())
    words, state = target.model.get_input_embeddings().weight, context.features["hidden_states"][1]
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    paths = [[draft.tokens[step] for step in draft.path(node)] for node in range(len(draft))]
    for _ in range(3):
        grown = []
        for value, beam in beams:
            scores = log_probs(tensors, words, state, [4, *beam]).tolist()
            grown += [(value + score, [*beam, token]) for token, score in enumerate(scores)]
        beams = sorted(grown, reverse=True)[:width]
        assert all(beam in paths for _, beam in beams)


@pytest.mark.parametrize("name", ["num_draft_layers", "exit_dim"])
def test_a_config_without_a_size_is_refused(name: str, published: Any) -> None:
    target, folder, _ = published
    change(folder, {name: None})
    with pytest.raises(ConfigError, match=f"{name}=None: expected a whole number"):
        ReDrafter(str(folder)).bind(target)
