"""A run's identity changes with the code and the weights that its figures come from."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from outrider.drafters.parts.networks.weights import built_in
from outrider.lab.runs.identity import FILE, fingerprint, identity, part_identity, provenance
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


QUESTION = "Name three rivers."


def knowing(folder: Path, *prompts: str) -> Path:
    """Writes weights with the fingerprints of prompts beside them, and returns their file."""
    folder.mkdir()
    shutil.copy(built_in("bigram") / "model.safetensors", folder)
    (folder / FILE).write_text("".join(f"{fingerprint(words)}\n" for words in prompts))
    return folder / "model.safetensors"


@pytest.mark.usefixtures("few_layers")
def test_prompts_of_the_training_are_marked_wherever_the_weights_are(
    run: Any, tmp_path: Path, shallow_smollm2: Any
) -> None:
    data = tmp_path / "data.jsonl"
    rows = [{"id": "a", "prompt": QUESTION}, {"id": "b", "prompt": "What is a lake?"}]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompt = shallow_smollm2.encode_turns([QUESTION], chat=True)
    words = shallow_smollm2.tokenizer.decode(prompt, skip_special_tokens=True)
    own = knowing(tmp_path / "own", words.upper())
    other = knowing(tmp_path / "other", "another prompt")
    inside = f"{{drafter: hybrid, chain: [{{drafter: bigram, counts: {own}}}, prompt_lookup]}}"
    known, new = (
        f"{{drafter: bigram, counts: {file}, name: {name}}}"
        for file, name in ((own, "known"), (other, "new"))
    )
    settings = ["data=jsonl", f"data.path={data}", "max_new_tokens=4", "reports=[]"]
    drafters = f"drafters=[none,{known},{inside},{new}]"
    printed = run.done("compare", drafters, *settings, "hydra.run.dir=out")
    report = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [row["trained_on"] for row in report["rows"]] == [0, 1, 1, 0]
    said = "known was trained on 1 of the prompts: its figures are not of new texts (!)."
    assert said in report["finding"] and said in " ".join(printed.split())
    assert not any(line.startswith("known") and "first" in line for line in report["finding"])
    csv = run.done("report", "out", "--format", "csv")
    row = next(line for line in csv.splitlines() if line.startswith("known"))
    assert row.count("!") > 1
