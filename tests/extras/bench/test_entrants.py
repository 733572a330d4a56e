"""Each drafter meets its counterparts, all with the same weights, precision and gamma."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tiny.wrapped import write_gguf

from outrider import ConfigError, Context, Drafter, Pen
from outrider.extras.bench.entrants import LLAMA_CPP, PEER, entrants
from outrider.plugins.config import compose
from outrider.plugins.reading import plain_values
from outrider.targets.weights_location import weights_location


class PromptLookup(Drafter):
    """A stranger's drafter, which shares no more than its name with the built-in one."""

    def propose(self, context: Context, pen: Pen) -> None:
        pen.write(context.tokens[-1])


GREEDY = {"temperature": 0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0}
COMMON = {"dtype": "float32", "sampling": GREEDY}


def asked(*overrides: str) -> Any:
    return plain_values(compose("bench", ["target=transformers", "target.model=/m", *overrides]))


def test_prompt_lookup_meets_prompt_lookup() -> None:
    config = asked(f"peers.vllm={sys.executable}", "gamma=4", "drafter.max_n=2")
    by_name = {entrant.name: entrant for entrant in entrants(config, "/m")}
    assert list(by_name) == [
        *("outrider plain", "outrider PromptLookup", "transformers plain"),
        *("transformers PromptLookup", "vllm plain", "vllm PromptLookup"),
    ]
    assert by_name["outrider plain"].rivals[:2] == ("transformers plain", "vllm plain")
    options = {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 2}
    expected = COMMON | {"model": "/m", "gamma": 4, "options": options}
    assert by_name["transformers PromptLookup"].settings == expected
    lengths = {"num_speculative_tokens": 4, "prompt_lookup_max": 2, "prompt_lookup_min": 1}
    found = by_name["vllm PromptLookup"].settings["speculative"]
    assert found == {"method": "ngram", **lengths}
    assert by_name["vllm plain"].command[1:] == (PEER, "vllm")


def test_a_drafter_that_a_peer_lacks_is_left_out() -> None:
    untabled = ("drafter=small_lm", "drafter.model=smollm2")
    foreign = ("drafter=small_lm", "drafter.model=/s", "drafter.vocabulary=shared")
    choices = ((("drafter=bigram",), "bigram"), (untabled, "SmallLM"), (foreign, "SmallLM"))
    for chosen, name in choices:
        names = [entrant.name for entrant in entrants(asked(*chosen), "/m")]
        assert names == ["outrider plain", f"outrider {name}", "transformers plain"]
    alone = entrants(asked("peers.transformers=false", "drafter=none"), "/m")
    assert [entrant.name for entrant in alone] == ["outrider plain"]


def test_listed_drafters_meet_plain_decoding() -> None:
    config = asked("peers.transformers=false", "drafter=bigram", "gamma=3")
    drafter = {"_target_": "outrider.drafters.eagle.Eagle", "path": "/e"}
    listed: dict[str, Any] = {"eagle": {"drafter": drafter, "gamma": 7}}
    plain, own, eagle = entrants(config, "/m", listed)
    names = [entrant.name.removeprefix("outrider ") for entrant in (plain, own, eagle)]
    assert names == ["plain", "bigram", "eagle"]
    assert eagle.rivals == ("outrider plain",)
    assert eagle.settings == {**own.settings, "drafter": drafter, "gamma": 7}
    for name in ("bigram", "plain"):
        with pytest.raises(ConfigError, match=f"drafters='{name}': expected a name that no other"):
            entrants(config, "/m", {name: listed["eagle"]})


def test_peers_have_the_targets_precision_and_its_drafter() -> None:
    rounded = ("target.quantize=int8", "target.dtype=bfloat16")
    config = asked("drafter=small_lm", "drafter.model=/s", *rounded)
    for peer in entrants(config, "/m")[2:]:
        assert (peer.settings["quantize"], peer.settings["dtype"]) == ("int8", "bfloat16")
    assert peer.settings["options"] == {"assistant_model": "/s"}
    config = asked(f"peers.vllm={sys.executable}", "target.quantize=int8")
    with pytest.raises(ConfigError, match=r"expected null with target\.quantize"):
        entrants(config, "/m")


def test_a_strangers_class_of_the_same_name_is_another_drafter() -> None:
    config = asked(f"peers.vllm={sys.executable}")
    config["drafter"] = {"_target_": f"{__name__}.PromptLookup"}
    names = [entrant.name for entrant in entrants(config, "/m")]
    assert names == ["outrider plain", "outrider PromptLookup", "transformers plain", "vllm plain"]


def test_peers_load_the_folder_of_a_gguf_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "tiny.gguf"
    write_gguf(file)
    of_model = (f"target.model={file}", "target.quantize=stored", f"drafter.model={file}")
    config = asked("drafter=small_lm", *of_model)
    folder = weights_location(config)
    assert (Path(folder) / "config.json").is_file()
    *_, assisted = peers = entrants(config, folder)[2:]
    assert assisted.settings["options"] == {"assistant_model": folder}
    assert all("quantize" not in entrant.settings for entrant in peers)


@pytest.mark.parametrize(
    ("drafter", "own"),
    [
        ("prompt_lookup", {"lookup": {"max_n": 3, "min_n": 1, "gamma": 5}}),
        ("small_lm", {"draft": "FILE"}),
        ("bigram", None),
    ],
)
def test_llama_cpp_runs_the_gguf_files_themselves(
    drafter: str, own: dict[str, Any] | None, tmp_path: Path
) -> None:
    file = tmp_path / "tiny.gguf"
    write_gguf(file)
    of_model = [f"drafter.model={file}"] if drafter == "small_lm" else []
    config = asked(
        f"target.model={file}", f"drafter={drafter}", *of_model, "sampling=standard",
        "target.quantize=int8", "peers.transformers=false", f"peers.llama_cpp={sys.executable}",
    )  # fmt: skip
    found = entrants(config, "/m")[2:]
    expected = [{"draft": None}]
    if own is not None:
        expected.append({name: str(file) if it == "FILE" else it for name, it in own.items()})
    common = COMMON | {"model": str(file), "gamma": 5, "sampling": GREEDY | {"temperature": 1.0}}
    assert [entrant.settings for entrant in found] == [common | it for it in expected]
    assert all(entrant.command == (sys.executable, LLAMA_CPP) for entrant in found)
