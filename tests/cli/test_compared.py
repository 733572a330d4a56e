"""`outrider.compare` measures what the command does, with instances too, and shows itself."""

from pathlib import Path
from typing import Any

import pytest
from tiny.tokenizer_kinds import tokenizer_of

import outrider
from outrider import Context, Drafter, Pen
from outrider.lab.runs.run import load
from outrider.targets.tabular import TabularTarget

PROMPTS = ["the cat sat", "a cat sat"]

OPTIONS: dict[str, Any] = {"max_new_tokens": 6, "gamma": 3, "protocol": "decode", "reports": []}


class Again(Drafter):
    """Repeats the last token."""

    def propose(self, context: Context, pen: Pen) -> None:
        while pen.open:
            pen.write(context.tokens[-1])


@pytest.fixture(scope="module")
def target() -> TabularTarget:
    tokenizer = tokenizer_of("llama")
    target = TabularTarget(len(tokenizer), order=1, seed=3)
    target.tokenizer = tokenizer
    return target


def test_instances_names_and_mappings_are_compared(target: Any, tmp_path: Path) -> None:
    here = {"_target_": f"{__name__}.Again", "name": "by place"}
    drafters = [Again(), here, "prompt_lookup", {"drafter": "bigram", "order": 3}]
    found = outrider.compare(
        target, drafters, PROMPTS, folder=tmp_path / "run", sampling="standard", **OPTIONS
    )
    counts = found.frames.questions.set_index(["drafter", "prompt"])
    assert list(counts.index.levels[0]) == ["Again", "bigram", "by place", "prompt_lookup"]
    assert counts.loc["Again"].emitted.tolist() == counts.loc["by place"].emitted.tolist()
    assert list(found.frames.rates.drafter) == ["Again", "by place", "prompt_lookup", "bigram"]
    assert found.frames.rounds.tokens.map(len).sum() == counts.emitted.sum()
    facts = load(found.folder).facts
    assert facts["drafters"]["Again"]["drafter"] == {"_target_": f"{__name__}.Again"}
    assert facts["settings"]["sampling"]["seed"] == 0
    assert found.finding in repr(found)
    page = found._repr_html_()
    assert "prompt_lookup" in page and "<table>" in page and page.count("Timings") < 2
