"""A model spread over ranks: the same texts, drafts and files as one process, and no hang."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny import forked
from tiny.models import ENTRIES, build
from torch import distributed
from transformers import CONFIG_MAPPING, MambaConfig, MambaForCausalLM

from outrider import ConfigError, TargetError
from outrider.base.errors import ProcessEnded
from outrider.extras.ranks import engine as ranks
from outrider.extras.ranks import launch
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.engine import note_engine
from outrider.targets.passes.first_layers import first_layers

HERE = Path(__file__).parent
PROMPT = "prompt=the cat sat on the mat the cat"
pytestmark = pytest.mark.first


@pytest.fixture(scope="module")
def divisible(tmp_path_factory: pytest.TempPathFactory, llama: Any, words: Any) -> Path:
    """A folder with a model whose heads two ranks divide."""
    path = tmp_path_factory.mktemp("divisible")
    llama(num_attention_heads=4, num_key_value_heads=2).save_pretrained(path)
    words.save_pretrained(path)
    return path


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Gives this process the environment of one of two ranks."""
    before = signal.getsignal(signal.SIGTERM)

    def be(rank: int) -> None:
        for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("WORLD_SIZE", "2"), ("RANK", f"{rank}")):
            monkeypatch.setenv(name, value)

    yield be
    signal.signal(signal.SIGTERM, before)


def test_spread_and_whole_decode_alike(divisible: Path, folder: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    done = forked.run(HERE / "on_ranks.py", divisible, folder, result, cwd=tmp_path, ranks=2)
    assert done.returncode == 0, done.stderr
    report = json.loads(result.read_text())
    assert report["shards"] == [[4, 16], [8, 16]]
    assert len(report["whole"]) == 2 * 11 + 4
    for name, rounds in report["whole"].items():
        assert report["spread"][name] == rounds, name
        if ", " in name:
            assert any(draft for _, draft, _ in rounds) == (not name.startswith("none, ")), name
    refusals = report["refusals"]
    assert "drafter Swift needs cache: the target offers" in refusals["cache"]
    assert "was run by the first alone" in refusals["alone"]
    assert "expected one model, another is spread over the ranks" in refusals["second"]


def test_only_the_first_rank_speaks_and_writes(
    divisible: Path, tmp_path: Path, run: Any, data: Path
) -> None:
    settings = ("target=transformers", f"target.model={divisible}", "max_new_tokens=12")
    command = ("generate", *settings, PROMPT, "sampling=standard", "sampling.seed=5")
    spread = forked.run("-m", "outrider", *command, "target.tensor_parallel=true",
                        "hydra.run.dir=spread", cwd=tmp_path, ranks=2)  # fmt: skip
    assert spread.returncode == 0, spread.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"spread", "data.jsonl"}
    alone = run.done(*command, "hydra.run.dir=alone")
    assert spread.stdout.splitlines()[0] == alone.splitlines()[0]
    assert spread.stdout.count("generation.json") == 1
    reports = [
        json.loads((tmp_path / name / "generation.json").read_text())
        for name in ("spread", "alone")
    ]
    assert reports[0]["tokens"] == reports[1]["tokens"]
    assert reports[0]["counts"] == reports[1]["counts"]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_ends_the_run_on_the_others(
    divisible: Path, tmp_path: Path, rank: int
) -> None:
    done = forked.run(HERE / "killed_rank.py", rank, "generate", "target=transformers",
                      f"target.model={divisible}", "target.tensor_parallel=true", PROMPT,
                      "max_new_tokens=40", "hydra.run.dir=out", cwd=tmp_path, ranks=2)  # fmt: skip
    assert done.returncode == 1
    (line,) = re.findall("outrider: .*", done.stderr)
    others = "another rank" if rank else "rank 0"
    # It notices either its own connection first, or torchrun.
    gone = f"target.tensor_parallel: {others} is gone or does not answer ("
    assert gone in line or "stopped by torchrun, since another rank has ended" in line
    assert "pair.cc" not in line
    if rank:  # the first keeps what it had
        report = json.loads((tmp_path / "out" / "generation.json").read_text())
        assert report["tokens"] and report["error"].startswith("TargetError: ")


def test_one_process_can_not_spread_a_model(run: Any, folder: Path) -> None:
    model = ("target=transformers", f"target.model={folder}", "target.tensor_parallel=true")
    err = run.refused("generate", *model, "prompt=the cat")
    assert "expected two processes or more, started by torchrun" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("generate", "prompt=hi"), "target.tensor_parallel=False: expected true, torchrun has"),
        (("train", "target.tensor_parallel=true"), "only generate and compare can"),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_names_the_settings_that_torchrun_rules_out(
    two_ranks: Any, run: Any, command: tuple[str, ...], line: str, rank: int
) -> None:
    two_ranks(rank)
    err = run.refused(*command)
    assert line in err
    assert err.startswith("outrider: rank 1: " if rank else "outrider: ")
    assert "rank 0" not in err


def test_ranks_have_to_divide_the_heads(two_ranks: Any, llama: Any) -> None:
    two_ranks(0)
    launch.require_fit(llama(num_attention_heads=4, num_key_value_heads=2).config)
    config = llama(hidden_size=36, num_attention_heads=9, num_key_value_heads=3).config
    with pytest.raises(ConfigError, match="2 ranks don't divide 9 heads and 3 of keys and values:"):
        launch.require_fit(config)
    with pytest.raises(ConfigError, match="does not spread hrm_text rightly over ranks"):
        launch.require_fit(CONFIG_MAPPING["hrm_text"]())


def test_a_pass_that_fails_ends_another_rank_in_one_line(
    two_ranks: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first rank reports the error, and would be stopped by a status that is not 0."""
    two_ranks(1)
    monkeypatch.setattr(distributed, "new_group", lambda **_: None)
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: None)

    def fail(*_: Any) -> None:
        raise RuntimeError("sizes\nof tensors [2] and [4]")

    monkeypatch.setattr(ranks, "_follow", fail)
    with pytest.raises(ProcessEnded) as end:
        ranks.take_part(None)  # type: ignore[arg-type]
    assert end.value.code == 0
    assert capsys.readouterr().err == "rank 1: RuntimeError: sizes of tensors [2] and [4]\n"


def test_an_order_counts_layers_as_the_other_ranks_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """LongCat-Flash's `num_hidden_layers` is twice the number of its layers."""
    orders: list[ranks.Order] = []
    first = SimpleNamespace(dropped=[], leading=lambda order: nullcontext(orders.append(order)))
    monkeypatch.setattr(ranks, "_first", first)
    model = first_layers(build(ENTRIES["longcat_flash"]), 2)
    note_engine(model, ranks.Ranks())
    CachedModel(model).feed([5, 6], 1)
    assert [order.layers for order in orders] == [2]


def test_a_model_with_states_is_refused() -> None:
    config = MambaConfig(vocab_size=31, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(TargetError, match="MambaForCausalLM: its states can't be spread"):
        ranks.Ranks().prepare(MambaForCausalLM(config))


def test_a_rank_that_torchrun_stops_says_so(
    two_ranks: Any, run: Any, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    two_ranks(0)
    monkeypatch.setattr(launch, "join", lambda: os.kill(os.getpid(), signal.SIGTERM))
    err = run.refused("generate", "target=transformers", f"target.model={folder}",
                         "target.tensor_parallel=true", "prompt=the cat")  # fmt: skip
    assert err.startswith("outrider: stopped by torchrun, since another rank has ended")
