"""`outrider bench` on a tiny model: all texts agree, and the figures are there."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny.wrapped import write_gguf

TINY = ["repeats=2", "batches=[1,2]", "max_new_tokens=12"]


def set_default(folder: Path, **values: Any) -> None:
    """Sets defaults of the model in a folder."""
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.usefixtures("forked_workers")
def test_a_bench_beside_transformers(folder: Path, run: Any, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    texts = ["the cat sat on the cat sat on", "one two one two"]
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    folder = Path(shutil.copytree(folder, tmp_path / "model"))
    set_default(folder, no_repeat_ngram_size=6)
    status, out, err = run(
        *("bench", "target=transformers", f"target.model={folder}", "data=jsonl"),
        *(f"data.path={prompts}", "gamma=3"),
        "drafters=[{drafter: medusa, path: untrained, name: heads, verifier: block, gamma: 2}]",
        *("hydra.run.dir=b", f"reports=[{{report: json_lines, path: {tmp_path / 'log.jsonl'}}}]"),
        *TINY,
    )
    assert status == 0 and "defaults of the model in force: no_repeat_ngram_size=6" in err
    begun, *texts_logged, ended = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert begun["settings"]["repeats"] == "2" and len(texts_logged) == ended["step"] == 20
    assert "all 10 texts agree" in out
    assert "times as fast as transformers plain" in out
    facts = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert set(facts["tokens_per_second"]) == {
        *("outrider plain", "outrider PromptLookup", "outrider heads", "transformers plain"),
        "transformers PromptLookup",
    }
    assert all(value > 0 for value in facts["tokens_per_second"].values())
    for name, value in facts["tokens_per_second"].items():
        assert ended["figures"][f"{name}/tokens_per_second"] == value
    assert ended["figures"]["outrider plain/times transformers plain"] > 0
    assert facts["target_itself"] == []
    phases = facts["phases"]["outrider PromptLookup"]
    assert phases["total"] >= phases["score"] > 0 and phases["rest"] >= 0
    assert "outrider heads: a draft takes " in out
    assert 0 < facts["drafting"]["outrider heads"]["share"] < 1
    assert facts["settings"]["drafters"]["heads"]["drafter"]["path"] == "untrained"
    runs = [json.loads(line) for line in (tmp_path / "b" / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 2 * 2 * 5
    of_others = {"outrider PromptLookup", "transformers plain"}
    own = {"batches", "batches with prompts"}
    assert set(facts["curves"]) == own | {f"batches with prompts, {name}" for name in of_others}
    assert all(value > 0 for _, values in facts["curves"].values() for value in values)


@pytest.mark.usefixtures("forked_workers")
def test_a_bench_beside_llama_cpp(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file on both sides, with every weight as it is: greedy texts are the same."""
    monkeypatch.delattr("outrider.targets.gguf.convert")
    file, prompts = tmp_path / "tiny.gguf", tmp_path / "prompts.jsonl"
    write_gguf(file, "F32")
    prompts.write_text('{"prompt": "the cat the cat the"}\n{"prompt": "one two one"}\n')
    status, out, err = run(
        *("bench", "target=transformers", f"target.model={file}", "target.quantize=stored"),
        *("drafter=small_lm", f"drafter.model={file}", "drafter.quantize=stored"),
        *("sampling=greedy", "data=jsonl", f"data.path={prompts}"),
        "peers.transformers=false",
        *(f"peers.llama_cpp={sys.executable}", "hydra.run.dir=b", "repeats=1"),
        *("batches=[1]", "max_new_tokens=8"),
    )
    assert status == 0, err
    assert "all 8 texts agree" in out
    facts = json.loads((tmp_path / "b" / "bench.json").read_text())
    names = ("plain", "SmallLM")
    entrants = {f"{who} {what}" for who in ("outrider", "llama_cpp") for what in names}
    for speeds in (facts["tokens_per_second"], facts["decoding_tokens_per_second"]):
        assert set(speeds) == entrants and all(speed > 0 for speed in speeds.values())
    pairs = {(one, other) for one, other, _, alone in facts["ratios"] if alone["value"] > 0}
    assert pairs >= {(f"outrider {what}", f"llama_cpp {what}") for what in names}
    assert "llama_cpp SmallLM chose {'n_max': " in out


def test_prompts_are_read_before_engines_are_started(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any) -> Any:
        raise AssertionError("an engine was started")

    monkeypatch.setattr("outrider.extras.bench.command._start_workers", start)
    assert "/nowhere.jsonl" in run.refused("bench", "data=jsonl", "data.path=/nowhere.jsonl")
