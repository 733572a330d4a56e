"""What a sweeper reads of a job: the number that `compare` and `generate` return."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback


class Kept(Callback):
    """Keeps what jobs return."""

    values: ClassVar[list[Any]] = []

    def on_job_end(self, config: Any, job_return: JobReturn, **_: Any) -> None:
        self.values.append(job_return.return_value)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[Any]]:
    """Returns the setting that keeps what jobs return, and where."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from test_objective import Kept as Loaded  # the class that Hydra makes one of

    Loaded.values.clear()
    return "+hydra.callbacks.kept._target_=test_objective.Kept", Loaded.values


def test_compare_returns_the_rate_of_the_best_drafter(run: Any, quick: Any, kept: Any) -> None:
    setting, values = kept
    words = (*quick, "turns=1", "protocol=overlap", "hydra.run.dir=out", "objective=alpha")
    run.done("compare", *words, setting)
    rows = json.loads(Path("out/comparison.json").read_text())["rows"]
    rates = [row["alpha"] for row in rows if row["drafter"] != "none"]
    assert values == [max(rates)] and isinstance(values[0], float)


def test_generate_returns_its_tokens_per_call(run: Any, kept: Any) -> None:
    setting, values = kept
    words = ("target=tabular", "prompt=[0,1]", "max_new_tokens=8", "drafter=bigram")
    assert run("generate", "--multirun", "gamma=1,3", *words, setting)[0] == 0
    counts = [json.loads(path.read_text())["counts"] for path in Path().rglob("generation.json")]
    assert sorted(values) == sorted(count["emitted"] / count["rounds"] for count in counts)
