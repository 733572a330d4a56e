"""A drafter is marked, and not ranked, on prompts that its weights learned from."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from outrider.drafters.parts.networks.weights import built_in
from outrider.lab.runs.training_prompts import FILE, fingerprint

QUESTION = "Name three rivers."


def knowing(folder: Path, *prompts: str) -> Path:
    """Writes weights with the fingerprints of prompts beside them, and returns their file."""
    folder.mkdir()
    shutil.copy(built_in("bigram") / "model.safetensors", folder)
    (folder / FILE).write_text("".join(f"{fingerprint(words)}\n" for words in prompts))
    return folder / "model.safetensors"


@pytest.mark.usefixtures("few_layers")
@pytest.mark.parametrize(
    "config",
    [
        "{drafter: bigram, counts: FILE, name: known}",
        "{drafter: hybrid, chain: [{drafter: bigram, counts: FILE}, prompt_lookup], name: known}",
    ],
    ids=["a table", "inside of another"],
)
def test_prompts_of_the_training_are_marked_wherever_the_weights_are(
    config: str, run: Any, tmp_path: Path, shallow_smollm2: Any
) -> None:
    data = tmp_path / "data.jsonl"
    rows = [{"id": "a", "prompt": QUESTION}, {"id": "b", "prompt": "What is a lake?"}]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompt = shallow_smollm2.encode_turns([QUESTION], chat=True)
    words = shallow_smollm2.tokenizer.decode(prompt, skip_special_tokens=True)
    own = knowing(tmp_path / "own", words.upper())
    other = knowing(tmp_path / "other", "another prompt")
    again = config.replace("FILE", str(other)).replace("known", "new")
    drafters = f"drafters=[none,{config.replace('FILE', str(own))},{again}]"
    settings = ["data=jsonl", f"data.path={data}", "max_new_tokens=4", "reports=[]"]
    printed = run.done("compare", drafters, *settings, "hydra.run.dir=out")
    report = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert [row["trained_on"] for row in report["rows"]] == [0, 1, 0]
    said = "known was trained on 1 of the prompts: its figures are not of new texts (!)."
    assert said in report["finding"] and said in " ".join(printed.split())
    assert not any(line.startswith("known") and "first" in line for line in report["finding"])
    csv = run.done("report", "out", "--format", "csv")
    row = next(line for line in csv.splitlines() if line.startswith("known"))
    assert row.count("!") > 1
