"""A run's identity changes with the code and the weights that its figures come from."""

from pathlib import Path
from typing import Any

import pytest

from outrider.lab.runs.identity import identity, part_identity, provenance
from outrider.plugins import fingerprint as versions
from outrider.plugins.fingerprint import code_version, source_hash
from outrider.targets.transformers import TransformersTarget


@pytest.fixture(autouse=True)
def forget() -> None:
    """A process hashes each source once; these tests edit one."""
    source_hash.cache_clear()


def test_an_edited_drafter_is_another_drafter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "my_idea.py"
    module.write_text("class Idea: pass\n")
    config = {"drafters": [{"_target_": "my_idea.Idea"}, {"_target_": "outrider.drafters.x.X"}]}
    before = part_identity(config)
    assert list(before["code"]) == ["my_idea"]
    assert list(before["code"]["my_idea"]) == ["source"]  # it belongs to no distribution
    module.write_text("class Idea: better = True\n")
    source_hash.cache_clear()
    assert part_identity(config) != before


def test_code_of_a_wheel_is_told_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_version("pluggy.hooks") == {
        "distribution": "pluggy",
        "version": versions.distribution("pluggy").version,
    }
    monkeypatch.setattr(versions, "_is_in_site_packages", lambda package: False)
    assert code_version("pluggy.hooks")["source"] == source_hash("pluggy")


def test_weights_that_a_setting_names_are_hashed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    weights = tmp_path / "deep" / "model.safetensors"
    weights.write_bytes(b"1")
    config = {"_target_": "outrider.drafters.eagle.eagle", "path": str(tmp_path), "gamma": 3}
    before = part_identity(config)
    assert list(before["files"]) == ["path"]
    weights.write_bytes(b"2")
    assert part_identity(config) != before
    assert part_identity({"_target_": "outrider.drafters.none.NoDraft", "path": None}) == {}


def test_other_weights_of_the_target_are_another_identity(llama: Any) -> None:
    one, other = (identity(TransformersTarget(llama(seed=seed)), {"none": {}}) for seed in (0, 1))
    assert one["target"] != other["target"]
    assert one["libraries"] == other["libraries"]
    assert one["libraries"].keys() == {"torch", "transformers", "numpy"}
    assert one["outrider"]["version"]


def test_provenance_says_how_and_where() -> None:
    facts = provenance("compare", ["data.limit=2", "title=two words"])
    assert facts["command"] == "outrider compare data.limit=2 'title=two words'"
    assert facts["cores"] >= facts["threads"] >= 1
    assert facts["memory_gib"] > 0
    assert facts["date"].endswith("+00:00")
