"""Random settings and YAML files for every command, whose parts are then made."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.errors import ConfigError
from outrider.plugins.config import build, compose
from outrider.plugins.explaining import explain_error
from outrider.plugins.reading import read_settings
from outrider.plugins.registry import command_entry, installed

MADE = ("drafter", "verifier", "policy", "sampling", "constraint", "penalties")
"""The settings whose parts are made; a target or data would take seconds."""

VALUES = (
    *("null", "-1", "0", "2", "2.5", "nan", "true", "few", "''", "[1,2]", "[]", "{}", "{a:1}"),
    *("[a,{b:null}]", "${nothing}", "${gamma}", "${oc.env:NOT_SET}", "'", "{", "[", "~", "1e999"),
    *("99999999999999999999", "a b", "=", "é", "*", "@x", "none", "bigram", "greedy"),
    "{drafter: 3}",
)
NAMES = (
    *("gamma", "budget", "max_new_tokens", "prompt", "stop", "chat", "drafter", "verifier"),
    *("policy", "sampling", "target", "drafters", "policies", "data", "constraint", "repeats"),
    *("sampling.temperature", "sampling.seed", "drafter.order", "drafter.tree", "drafter.max_n"),
    *("drafter.nothing", "target.model", "verifier.lenience", "policy.alpha", "penalties.nothing"),
    *("data.limit", "experiment", "paper", "recipe", "seconds", "runs", "nothing", "gama", "a.b.c"),
    *("hydra.run.dir", "hydra.nothing", "drafter@x", "seed", "example", "out", "batch"),
)
YAMLS = (
    "gamma: 3\n", "gamma: [\n", "a: b: c\n", "- 1\n", "\t\n", "drafter: null\n", "gamma: few\n",
    "defaults:\n  - override /drafter: bigram\n", "defaults:\n  - override /drafter: nothing\n",
    "defaults: 3\n", "", "null\n", "x: !!python/object:os.system {}\n", "gamma: ${nothing}\n",
    "# @package nowhere\ngamma: 3\n", "drafter:\n  order: x\n", "'\n", "\x00", "é: ï\n",
)  # fmt: skip
"""Files that people put among their experiments."""


def run_config(command: str, overrides: Sequence[str], yaml: str | None = None) -> None:
    """Composes a command's config, reads its settings, and makes the cheap parts.

    yaml: an experiment in a folder of one's own, which is then chosen.
    """
    own = HydraConfig.instance().cfg  # of the command that runs the examples, if one does
    with TemporaryDirectory() as folder:
        words = list(overrides)
        if yaml is not None:
            (Path(folder) / "experiment").mkdir()
            (Path(folder) / "experiment" / "mine.yaml").write_text(yaml, encoding="utf-8")
            words += [f"hydra.searchpath=[file://{folder}]", "+experiment=mine"]
        config = compose(command, words)
    try:
        kind = command_entry(command).source.settings_class
        if kind is not None:
            read_settings(kind, config)
        for name in MADE:
            node = config.get(name)
            if OmegaConf.is_config(node) and "_target_" in node:
                build(node)
    except OmegaConfBaseException as error:
        raise ConfigError(explain_error(error, command, words)) from error
    finally:
        HydraConfig.instance().cfg = own


def commands() -> list[str]:
    """Returns the commands that have settings."""
    return [name for name, command in installed().commands.items() if not command.plain]


def configs() -> st.SearchStrategy[dict[str, Any]]:
    """Returns the strategy for what `run_config` takes."""
    signs = st.sampled_from(("", "", "", "+", "++", "~"))
    pairs = st.tuples(signs, st.sampled_from(NAMES), st.sampled_from(VALUES))
    settings = pairs.map(lambda pair: f"{pair[0]}{pair[1]}={pair[2]}")
    words = settings | settings | st.sampled_from(VALUES)
    return st.fixed_dictionaries(
        {
            "command": st.sampled_from(commands()),
            "overrides": st.lists(words, max_size=3),
            "yaml": st.none() | st.none() | st.sampled_from(YAMLS),
        }
    )
