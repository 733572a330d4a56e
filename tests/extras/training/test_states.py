"""The states on disk are the target's, for each text in any order, and are computed only once."""

from pathlib import Path
from typing import Any

import torch

from outrider.extras.training.states import compute_states
from outrider.targets.passes.cached_model import HIDDEN


def test_the_states_are_the_targets(examples: Any, texts: Any, target: Any) -> None:
    checked = 0
    for batch in examples.batches(5, seed=1):
        for ids, best, own, *states in zip(
            batch.ids, batch.best, batch.own, *batch.states.values(), strict=True
        ):
            (text,) = [t for t in texts if t.ids == ids[: len(t.ids)].tolist() and own[2:].any()]
            length = len(text.ids)
            output = target.model(torch.tensor([text.ids]), output_hidden_states=True)
            for stored, layer in ((states[0], -1), (states[3], 2)):
                right = output.hidden_states[layer][0]
                torch.testing.assert_close(stored[:length].float(), right, atol=1e-2, rtol=1e-2)
            assert best[:length].tolist() == output.logits[0].argmax(-1).tolist()
            assert own.tolist() == [2 <= position < length for position in range(len(ids))]
            checked += 1
    assert checked == len(texts)


def test_the_seed_decides_the_order(examples: Any) -> None:
    orders = [[batch.ids.tolist() for batch in examples.batches(5, seed)] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_files_of_other_texts_or_without_a_state_are_computed_again(
    examples: Any, texts: Any, target: Any, tmp_path: Path, console: Any
) -> None:
    path = tmp_path / "states" / "states-00000.safetensors"
    before = path.read_bytes()
    compute_states(target, texts, [HIDDEN], tmp_path / "states", console)
    assert path.read_bytes() == before  # it has more than that
    compute_states(target, texts[1:], [HIDDEN], tmp_path / "states", console)
    fewer = path.read_bytes()
    assert fewer != before
    compute_states(target, texts[1:], [HIDDEN, f"{HIDDEN}.2"], tmp_path / "states", console)
    assert path.read_bytes() != fewer
