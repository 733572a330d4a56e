"""Each family learns to draft the texts that it is trained on, through the folder that it saves."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.learners import FAMILIES, make_learner

from outrider import SampledChance, Sampling, decode
from outrider.decoding.batches.batch_target import batched
from outrider.drafters.parts.networks.vocabulary import Vocabulary, count_tokens, frequent
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.loop import train_network
from outrider.extras.training.progress import Schedule
from outrider.extras.training.states import compute_states
from outrider.plugins.parts import make
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token

OPTIONS: dict[str, dict[str, Any]] = {
    "medusa": {"heads": 3}, "mlp_speculator": {"stages": 3}, "hydra": {"heads": 3},
    "redrafter": {"steps": 3}, "eagle": {"steps": 2, "distribution": 1.0}, "eagle3": {"steps": 2},
    "mtp": {"steps": 2}, "early_exit": {"layers": 2},
}  # fmt: skip

SHORT = {"small_lm": {"layers": 2}, "pard": {"layers": 2}}
"""The options of families that learn in tests of their own."""

GAINS = {
    "medusa": 0.04, "mlp_speculator": 0.3, "hydra": 0.2, "redrafter": 0.3, "eagle": 0.5,
    "eagle3": 0.5, "mtp": 0.5, "early_exit": 0.5,
}  # fmt: skip
"""In tokens a round. Medusa's heads start out repeating the target's, which is often right here."""


@pytest.fixture(scope="module")
def writer(deep_llama: Any, words: Any) -> TransformersTarget:
    """A target whose texts never end."""
    target = TransformersTarget(deep_llama(), words)
    target.eos = frozenset()
    return target


@pytest.fixture(scope="module")
def greedy(writer: Any) -> list[Text]:
    """Returns greedy texts of the target, which repeat themselves after a while."""
    starts = [[first] for first in range(2, 31)]
    texts = batched(writer).write(starts, Sampling(), [SampledChance.seeded(0)] * len(starts), 20)
    return [Text([*start, *text], 1, 1) for start, text in zip(starts, texts, strict=True)]


@pytest.mark.parametrize(
    ("family", "known", "whitened"),
    # How many tokens are known, and whether matrices learn in whitened bases.
    [*((family, 24, True) for family in OPTIONS), ("eagle", 31, False)],
)
def test_a_trained_drafter_drafts_the_taught_text(
    *,
    family: str,
    known: int,
    whitened: bool,
    writer: Any,
    greedy: Any,
    tmp_path: Path,
) -> None:
    vocabulary = frequent(count_tokens((text.ids for text in greedy), 31), known)
    learned = make_learner(family, writer, vocabulary, 0, OPTIONS[family])
    examples = compute_states(writer, greedy, learned.reads, tmp_path / "states")
    epochs = 20 if family == "medusa" else 12
    schedule = Schedule(
        epochs=epochs, batch=10, rate=0.02, warmup=5, evaluate=60, patience=9, whitened=whitened
    )
    folder = tmp_path / "weights"

    def accepted() -> float:
        learned.save_checkpoint(folder)
        drafter = make("drafter", family, path=str(folder))
        rounds = [
            round
            for text in greedy[:3]
            for round in decode(writer, drafter, Token(), text.ids[:2], gamma=3, max_new_tokens=16)
        ]
        return sum(round.accepted for round in rounds) / len(rounds)

    before = accepted()
    train_network(learned, examples, examples, schedule, folder=tmp_path / "run")
    assert accepted() > before + GAINS[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_names_an_unknown_entry_of_a_config(
    family: str, target: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = make_learner(family, target, Vocabulary(31), 0, (OPTIONS | SHORT).get(family, {}))
    learned.save_checkpoint(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    settings = {learned.option: str(tmp_path)}
    make("drafter", family, **settings).bind(target)
    assert "does not read" not in capsys.readouterr().err
    (tmp_path / "config.json").write_text(json.dumps(config | {"colour": 3, "temperature": 1.0}))
    make("drafter", family, **settings).bind(target)
    assert "does not read colour in config.json" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("family", ["dflash", "eagle", "peagle"])
def test_texts_without_answers_teach_nothing(family: str, target: Any, examples: Any) -> None:
    learned = make_learner(family, target, Vocabulary(31), 0, OPTIONS.get(family, {}))
    batch = next(examples.batches(6, 0)).to(torch.device("cpu"), torch.float32)
    batch.own[:] = False
    assert learned.loss(batch).item() == 0
