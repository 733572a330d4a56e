"""`outrider theory hardware=...`: a machine that is not here, and a run's rates on it."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.extras.theory.shapes import Shape
from outrider.theory import expected_tokens

ROOT = Path(__file__).parents[3]


@pytest.fixture
def model() -> Path:
    """The config of Llama 3.1 8B."""
    return Path(__file__).parent / "config.json"


def rows(run: Any, *words: str) -> list[dict[str, Any]]:
    out = run.done("theory", "--json", *words)
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_llama_on_an_h100_takes_its_bytes(run: Any, model: Path) -> None:
    """15.0 GB of weights and 67 MB of keys and values at .685 of 3.35 TB/s, and 291 launches."""
    (row,) = rows(run, "hardware=h100", f"model={model}", "drafters=[lookup]", "gamma=3")
    shape = Shape(32, 4096, 14336, 32, 8, 128, 128256, 16, "bfloat16")
    read = 2 * (32 * shape.layer_weights + shape.table_weights) + 513 * shape.cache_bytes
    assert row["plain"] == pytest.approx(1000 * (read / (0.685 * 3.35e12) + 291 * 0.5e-6))
    assert row["cost"] == pytest.approx(1, abs=0.01)
    assert row["at 0.7"] == pytest.approx(expected_tokens(0.7, 3) / row["cost"])


def test_rows_are_all_combinations(run: Any, model: Path) -> None:
    lists = ("batch=[1,256]", "context=[128,8192]", "gamma=[2,5]", "budget=[2,64]")
    found = rows(run, "hardware=a100", f"model={model}", "drafters=[eagle,dflash]", *lists)
    assert len(found) == 2 * 2 * 2 * 2 * 2
    assert {row["nodes"] for row in found} == {2, 5, 64}
    costly = [row for row in found if row["batch"] == 256 and row["nodes"] == 64]
    assert all(row["pays from"] is None or row["pays from"] > 0.9 for row in costly)


@pytest.mark.parametrize("name", ["h100", "h200", "a100", "rtx4090", "m3_max", "epyc"])
def test_each_profile_has_its_source(run: Any, model: Path, name: str) -> None:
    (row,) = rows(run, f"hardware={name}", f"model={model}", "drafters=[lookup]")
    assert 1 < row["plain"] < 1000
    assert "\nsource: " in (ROOT / "extras/theory/conf/hardware" / f"{name}.yaml").read_text()


def comparison(folder: Path) -> Path:
    """Writes what a run of three drafters has, as far as it is read."""
    places = {"none": "none.NoDraft", "mine": "mine.Mine", "lookup": "prompt_lookup.PromptLookup"}
    rates = {"none": [], "mine": [0.8, 0.5], "lookup": [0.6, 0.3]}
    content = {
        "drafters": {
            name: {"drafter": {"_target_": f"outrider.drafters.{place}"}}
            for name, place in places.items()
        },
        "rows": [
            {"drafter": name, "acceptance": {"marginal_accept_rates": accepted},
             "counts": {"drafted": len(accepted)}, "alpha_tested": 0.5, "speedup": 1.25,
             "acceptance_by_rank": None}
            for name, accepted in rates.items()
        ],
    }  # fmt: skip
    folder.mkdir()
    (folder / "comparison.json").write_text(json.dumps(content))
    return folder


def test_the_rates_of_a_run_bring_a_speedup_on_another_machine(
    run: Any, model: Path, tmp_path: Path
) -> None:
    folder = comparison(tmp_path / "run")
    words = ("hardware=h100", f"model={model}", f"run={folder}", "gamma=[1,2,3]")
    found = rows(run, *words)
    assert [(row["drafter"], row["tokens"]) for row in found] == [
        ("lookup", pytest.approx(1.6)),
        ("lookup", pytest.approx(1.9)),
        ("lookup", pytest.approx(expected_tokens(0.5, 3))),
    ]
    assert all(row["speedup"] == pytest.approx(row["tokens"] / row["cost"]) for row in found)
    assert {row["here"] for row in found} == {1.25}
    both = rows(run, *words, "drafters=[{name: mine, kind: head, layers: 2}]")
    assert {row["drafter"] for row in both} == {"lookup", "mine"}
    _, _, err = run("theory", *words)
    assert "left out, for want of a cost: mine; add drafters=[{name: mine, model:" in err


def test_a_small_model_of_a_run_costs_its_own_passes(run: Any, model: Path, tmp_path: Path) -> None:
    path = comparison(tmp_path / "run") / "comparison.json"
    content = json.loads(path.read_text())
    small = {"_target_": "outrider.drafters.small_lm.SmallLM", "model": str(model)}
    content["drafters"]["mine"]["drafter"] = small
    path.write_text(json.dumps(content))
    words = ("hardware=h100", f"model={model}", f"run={path}", "gamma=2")
    rows_of = {row["drafter"]: row for row in rows(run, *words)}
    assert rows_of["mine"]["draft"] == pytest.approx(2 * rows_of["mine"]["plain"])
    assert rows_of["lookup"]["draft"] == 0


def test_a_profile_of_a_drafter_is_read_too(run: Any, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "speculation_profile.json"
    content = {
        "schema_version": "1.0", "measured": True, "method": "eagle", "num_speculative_tokens": 2,
        "verification_method": "longest_prefix", "conditional_accept_rates": [0.8, 0.5],
        "marginal_accept_rates": [0.8, 0.4], "mean_accept_length": 2.2,
        "accept_length_model": "chain_analytic", "accept_length_by_k": {"2": 2.2},
    }  # fmt: skip
    path.write_text(json.dumps(content))
    (row,) = rows(run, "hardware=h200", f"model={model}", f"run={path}", "gamma=2")
    assert (row["drafter"], row["tokens"], row["here"]) == ("eagle", pytest.approx(2.2), None)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["hardware=h100"], "model=null: expected a config.json"),
        (["hardware=h10"], "hardware='h10': did you mean 'h100'"),
        (["hardware=h100", "model=here.json"], "model='here.json': expected a config.json"),
        (["hardware=h100", "hardware.bandwidth=0"], "hardware.bandwidth=0: expected a number"),
        (["hardware=h100", "MODEL", "devices=0"], "devices=0: expected a whole number"),
        (["hardware=m3_max", "MODEL", "devices=2"], "hardware.link=None: expected bytes"),
        (["hardware=h100", "MODEL", "dtype=int3"], "dtype='int3': expected one of"),
        (["hardware=h100", "MODEL", "run=nowhere"], "run='nowhere': expected the folder of a run"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_line(run: Any, model: Path, words: list[str], line: str) -> None:
    given = [f"model={model}" if word == "MODEL" else word for word in words]
    err = run.refused("theory", *given)
    assert err.splitlines()[-1].startswith(f"outrider: {line}")


def test_a_measured_profile_predicts(
    run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.extras.theory.measured.SIZE", 32)
    monkeypatch.setattr("outrider.extras.theory.measured.memory_bandwidth", lambda clock: 2e10)
    path = tmp_path / "own" / "hardware" / "here.yaml"
    out = run.done("theory", f"measure={path}")
    assert out.startswith("20.0 GB/s, ") and str(path) in out.replace("\n", "")
    words = ("--config-dir", str(tmp_path / "own"), "hardware=here", f"model={model}")
    (row,) = rows(run, *words, "drafters=[lookup]")
    assert row["plain"] > 1000 * 15e9 / 2e10
