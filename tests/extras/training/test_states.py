"""The states on disk are the target's, for each text in any order, and are computed only once."""

from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.extras.training.states import compute_states
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.transformers import TransformersTarget


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


@pytest.mark.usefixtures("examples")
def test_files_of_other_texts_weights_or_states_are_computed_again(
    texts: Any, target: Any, llama: Any, tmp_path: Path
) -> None:
    path, state = tmp_path / "states" / "states-00000.safetensors", f"{HIDDEN}.2"
    contents = [path.read_bytes()]
    for reader, some, names in (
        (target, texts, [HIDDEN]),  # it has more than that
        (target, texts[1:], [HIDDEN]),
        (target, texts[1:], [HIDDEN, state]),
        (TransformersTarget(llama(1)), texts[1:], [HIDDEN, state]),
    ):
        compute_states(reader, some, names, tmp_path / "states")
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] and len(set(contents)) == 4
