"""`outrider plugins`: what each registered part is and needs."""

import json
from typing import Any


def test_the_list_of_plugins_names_the_needs_of_each_part(run: Any) -> None:
    out = run.done("plugins")
    assert "…" not in out  # nothing is cut where it is piped
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert lines["lenient"].split()[-1] == "LOSSY" and lines["token"].split()[-1] == "yes"
    assert max(map(len, out.splitlines())) <= 80
    text = " ".join(out.split())
    assert "medusa Drafts from the state that weights (given for smollm2;" in text
    out = run.done("plugins", "--json")
    parts = {(part["role"], part["name"]): part for part in json.loads(out)}
    assert parts["drafter", "prompt_lookup"]["needs"] == []
    assert parts["drafter", "prompt_lookup"]["about"].startswith("Prompt lookup decoding")
    assert parts["drafter", "hydra"]["needs"] == [
        "weights (train recipe=hydra)", "the target's states", "path="
    ]  # fmt: skip
    assert parts["drafter", "token_recycling"]["needs"] == ["trees"]
    assert parts["drafter", "shallow_aggressive"]["needs"] == ["an encoder's input"]
