"""The target's texts are written once, and then read from the cache."""

from pathlib import Path
from typing import Any

import pytest

from outrider import Sampling
from outrider.extras.cpu.packed_linear import can_pack
from outrider.lab.measuring import texts
from outrider.lab.measuring.texts import seeded, written
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget

PROMPTS = [[3, 4, 5], [9, 2], [7, 7, 2, 20, 11]]
SAMPLED = Sampling(temperature=1.0)


class Counted:
    """Counts the texts that targets write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[int] = []
        inner = TransformersTarget.write

        def write(self_: TransformersTarget, prompts: Any, *rest: Any) -> Any:
            self.batches.append(len(prompts))
            return inner(self_, prompts, *rest)

        monkeypatch.setattr(TransformersTarget, "write", write)


def test_a_text_is_written_once(
    llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TransformersTarget(llama())
    counted = Counted(monkeypatch)
    seen: list[int] = []
    options: Any = {"batch": 16, "folder": tmp_path, "on_text": lambda: seen.append(1)}
    first = written(target, PROMPTS[:2], SAMPLED, 8, **options)
    again = written(target, PROMPTS, SAMPLED, 8, **options)
    assert counted.batches == [2, 1]
    assert again[:2] == first
    assert len(seen) == 5


def test_batches_are_of_like_length_and_leave_texts_unchanged(
    llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TransformersTarget(llama().double())
    whole = written(target, PROMPTS, SAMPLED, 8, batch=16, folder=None)
    counted = Counted(monkeypatch)
    assert written(target, PROMPTS, SAMPLED, 8, batch=2, folder=None) == whole
    assert counted.batches == [2, 1]


def test_texts_written_before_an_interruption_are_kept(
    llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TransformersTarget(llama())

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        written(target, PROMPTS, SAMPLED, 8, batch=1, folder=tmp_path, on_text=interrupt)
    counted = Counted(monkeypatch)
    written(target, PROMPTS, SAMPLED, 8, batch=1, folder=tmp_path)
    assert counted.batches == [1, 1]


def test_a_damaged_file_is_written_again(llama: Any, tmp_path: Path) -> None:
    target = TransformersTarget(llama())
    first = written(target, PROMPTS, SAMPLED, 8, batch=16, folder=tmp_path)
    for path in tmp_path.rglob("*.json"):
        path.write_text("[3, 4")
    assert written(target, PROMPTS, SAMPLED, 8, batch=16, folder=tmp_path) == first


def test_a_folder_that_takes_no_texts_only_costs_the_next_run(llama: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = TransformersTarget(llama())
    kept = written(target, PROMPTS, SAMPLED, 8, batch=16, folder=tmp_path)
    assert written(target, PROMPTS, SAMPLED, 8, batch=16, folder=tmp_path / "file") == kept


def test_a_target_without_a_fingerprint_keeps_nothing(tmp_path: Path) -> None:
    written(TabularTarget(31), PROMPTS, SAMPLED, 8, batch=16, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_prompts_have_seeds_of_their_own() -> None:
    seeds = {seeded(Sampling(seed=seed), prompt).seed for prompt in PROMPTS for seed in (0, 1)}
    assert len(seeds) == 6
    assert seeded(SAMPLED, PROMPTS[0]) == seeded(SAMPLED, PROMPTS[0])


def other_eos(target: Any) -> Any:
    target.eos = frozenset({5})
    return target


CHANGES: dict[str, Any] = {
    "eos": other_eos,
    "weights": lambda target: TransformersTarget(target.make(seed=3)),
    "precision": lambda target: TransformersTarget(target.model.double()),
    "packing": lambda target: TransformersTarget(target.model, optimize="packed"),
    "window": lambda target: setattr(target, "max_length", 99) or target,
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_setting_that_decides_a_text_is_in_the_key(llama: Any, change: str) -> None:
    assert can_pack(llama()), "the packing case needs a build of PyTorch with packed kernels"
    target: Any = TransformersTarget(llama())
    target.make = llama
    before = texts.key(target, PROMPTS[0], SAMPLED, 8)
    assert texts.key(TransformersTarget(llama()), PROMPTS[0], SAMPLED, 8) == before
    assert texts.key(CHANGES[change](target), PROMPTS[0], SAMPLED, 8) != before


def test_the_request_is_in_the_key(llama: Any) -> None:
    target = TransformersTarget(llama())
    requests = [
        (PROMPTS[0], SAMPLED, 8), (PROMPTS[1], SAMPLED, 8), (PROMPTS[0], SAMPLED, 9),
        (PROMPTS[0], Sampling(temperature=0.5), 8),
        (PROMPTS[0], Sampling(temperature=1.0, seed=1), 8),
        (PROMPTS[0], Sampling(temperature=1.0, top_k=3), 8), (PROMPTS[0], Sampling(), 8),
    ]  # fmt: skip
    assert len({texts.key(target, *request) for request in requests}) == len(requests)
    greedy = [texts.key(target, PROMPTS[0], Sampling(seed=seed), 8) for seed in (0, 1)]
    assert greedy[0] == greedy[1]


def test_versions_are_in_the_key(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TransformersTarget(llama())
    before = texts.key(target, PROMPTS[0], SAMPLED, 8)
    own = texts._versions()
    assert own.keys() == {"outrider", "torch", "transformers", "source"}
    others = [("_versions", lambda: own | {"torch": "9"}), ("FORMAT", texts.FORMAT + 1)]
    for name, other in others:
        with monkeypatch.context() as patch:
            patch.setattr(texts, name, other)
            assert texts.key(target, PROMPTS[0], SAMPLED, 8) != before
