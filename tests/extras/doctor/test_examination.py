"""`outrider doctor`: facts of the installation, and a line for each fault."""

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.base.errors import OutriderError
from outrider.extras.cpu.processor import cpu_flags
from outrider.extras.doctor import examination as doctor
from outrider.extras.doctor.command import doctor as doctor_command
from outrider.plugins import registry


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of 2 MB with SmolLM2 in it, as far as its names go."""
    folder = tmp_path / "cache"
    weights = folder / "smollm2-135m" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(bytes(2_000_000))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda _: folder)
    return folder


def test_a_sound_installation(run: Any) -> None:
    out = run.done("doctor", "--json")
    facts = json.loads(out)
    assert facts["faults"] == []
    assert {"outrider", "torch", "transformers"} <= set(facts["versions"])
    assert facts["machine"]["threads"] >= 1
    assert facts["precision"]["8 rows in bfloat16, ms"] > 0
    assert facts["cache"]["smollm2-135m, MB"] == 2.0
    assert facts["plugins"]["parts in all"] > 30
    assert facts["self-test"]["checks"] > 10


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Makes a plugin appear as installed, the only one: its name, distribution and module."""

    def appear(name: str, distribution: str, module: str) -> None:
        plugin = EntryPoint(name, module, "outrider")
        vars(plugin).update(dist=SimpleNamespace(name=distribution))
        monkeypatch.setattr(registry, "entry_points", lambda group: [plugin])
        monkeypatch.setattr(doctor, "installed", registry.installed.__wrapped__)

    return appear


def test_every_fault_has_a_line(plugged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plugged("broken", "outrider-broken", "outrider_no_such_module")
    needs = ["torch>=99", "no-such-distribution>=1", 'peft>=99; extra == "peft"']
    monkeypatch.setattr(doctor, "requires", lambda _: needs)
    monkeypatch.setattr(doctor, "self_test", lambda faults: {})
    with pytest.raises(OutriderError) as raised:
        doctor_command([])
    lines = str(raised.value).splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("expected >=99")
    assert lines[1] == "no-such-distribution: expected >=1, it is not installed"
    assert lines[2].startswith("plugin 'broken' of outrider-broken can't be loaded: ModuleNot")


def test_the_needs_of_the_built_in_target_are_checked(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache / "smollm2-135m").rename(own_cache / "texts")
    monkeypatch.setattr(doctor, "FREE_GB", 1e9)
    faults: list[str] = []
    doctor.cache(faults)
    assert len(faults) == 1
    assert "target=smollm2 needs" in faults[0]


def test_flags_of_the_processor(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    assert cpu_flags(file) == set()
    file.write_text("processor : 0\nflags\t\t: fpu avx2 amx_bf16\nprocessor : 1\n")
    assert cpu_flags(file) == {"fpu", "avx2", "amx_bf16"}
    file.write_text("Features\t: asimd bf16\n")
    assert cpu_flags(file) == {"asimd", "bf16"}


def test_a_name_that_does_not_resolve_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "nosuchhost.invalid")
    line = "nosuchhost.invalid, which does not resolve: torchrun needs --local-addr 127.0.0.1"
    assert doctor.host_name() == line
    monkeypatch.setattr("socket.getfqdn", lambda: "localhost")
    assert doctor.host_name() == "localhost"
