"""Plugins: one entry point makes a part known, and a fault names the distribution."""

import inspect
import sys
from abc import abstractmethod
from collections.abc import Iterator
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest

from outrider import Command, ConfigError, Drafter, PluginError, hookimpl
from outrider.drafters.ngram import NGram
from outrider.drafters.none import NoDraft
from outrider.plugins import hookspecs
from outrider.plugins import registry as registries
from outrider.plugins.builtin import builtin_modules
from outrider.plugins.entry import Entry
from outrider.plugins.parts import make
from outrider.plugins.registry import builtin, registry_from
from outrider.plugins.roles import ROLES, plural
from outrider.verifiers.token import Token


def plugin(**hooks: Any) -> Any:
    return SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()})


class EntryPoint:
    """Stands for an installed distribution's entry point."""

    def __init__(self, name: str, thing: Any, distribution: str = "strange-dist") -> None:
        self.name, self.thing, self.value = name, thing, __name__
        self.dist = SimpleNamespace(name=distribution)

    def load(self) -> Any:
        if isinstance(self.thing, BaseException):
            raise self.thing
        return self.thing


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes entry points appear as installed."""

    def appear(*entries: EntryPoint) -> None:
        monkeypatch.setattr("outrider.plugins.registry.entry_points", lambda group: list(entries))

    return appear


def registered(name: str, factory: Any, role: str = "drafter") -> Any:
    def hook(register: Any) -> None:
        register(name, factory)

    return plugin(**{f"register_{plural(role)}": hook})


def registry(*extra: Any) -> Any:
    found = registry_from(extra)
    if found.faults:
        raise PluginError(found.faults[0])
    return found


def test_hook_register_drafters(install: Any) -> None:
    install(EntryPoint("mine", registered("mine", NoDraft)))
    entry = registry().find("drafter", "mine")
    assert (entry.factory, entry.distribution, entry.plugin) == (NoDraft, "strange-dist", "mine")


@pytest.mark.parametrize("role", ROLES)
def test_hooks_of_every_role_take_places(role: str) -> None:
    def implementation(register: Any) -> None:
        register("mine", "nowhere:Mine", extra="fast")

    entry = registry(plugin(**{ROLES[role].hook: implementation})).find(role, "mine")
    assert (entry.path, entry.extra) == ("nowhere.Mine", "fast")


def test_hook_register_commands(install: Any) -> None:
    mine = Command("mine", "does nothing", lambda config: None)
    install(EntryPoint("mine", plugin(register_commands=lambda register: register(mine))))
    assert registry().commands["mine"] is mine
    assert list(registry().commands)[-1] == "mine"  # as help lists them
    install(EntryPoint("mine", plugin(register_commands=lambda register: register("mine"))))
    with pytest.raises(PluginError, match=r"command 'mine' of strange-dist .* outrider.Command"):
        registry()


def test_hooks_are_those_of_the_roles() -> None:
    hooks = {name for name, _ in inspect.getmembers(hookspecs) if name.startswith("register_")}
    assert hooks == {"register_commands", *(role.hook for role in ROLES.values())}


def test_the_built_in_parts_are_plugins_too() -> None:
    parts = registry_from(installed=False)
    assert {entry.distribution for entry in parts.entries} == {"outrider"}
    assert {*builtin_modules()} == {entry.plugin for entry in parts.entries}
    assert parts.find("drafter", "bigram").product is NGram  # made by a function


def test_a_blocked_plugin_is_not_loaded(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(EntryPoint("mine", ImportError("broken")), EntryPoint("good", registered("g", NoDraft)))
    monkeypatch.setenv("OUTRIDER_BLOCK_PLUGINS", "other, mine")
    assert "g" in registry().of("drafter")


def test_a_class_of_another_role_names_its_distribution(install: Any) -> None:
    def unannotated():  # type: ignore[no-untyped-def]
        return NoDraft()

    for thing in (NoDraft(), Token, int, unannotated):
        install(EntryPoint("mine", registered("x", thing)))
        with pytest.raises(PluginError, match=r"drafter 'x' of strange-dist is .* a class of Draf"):
            registry()


def test_an_abstract_class_names_its_missing_methods(install: Any) -> None:
    class Half(Drafter):
        @abstractmethod
        def more(self) -> None: ...

    install(EntryPoint("mine", registered("half", Half)))
    with pytest.raises(PluginError, match="'half' of strange-dist is abstract: Half lacks more, p"):
        registry()


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(ConfigError, match="drafter='promt': did you mean 'prompt_lookup'"):
        registry().find("drafter", "promt")


def test_a_key_that_is_no_setting_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"drafter\.1: there are: none"):
        make("drafter", {"drafter": "none", 1: 2})


def test_a_place_is_imported_and_checked_when_it_is_used() -> None:
    parts = registry(registered("mine", "outrider.drafters.none:NoDraft")).of("drafter")
    assert parts["mine"].product is NoDraft
    for place, line in (
        ("outrider.verifiers.token:Token", "is <class .*Token'>: expected a class of Drafter"),
        ("outrider.drafters.none:Gone", "is 'outrider.drafters.none:Gone': .* has no attribute"),
        ("gone.drafter:Mine", "can't be imported: ModuleNotFoundError: No module named 'gone'"),
    ):
        entry = registry(registered("mine", place)).find("drafter", "mine")
        with pytest.raises(PluginError, match=f"drafter 'mine' of .* {line}"):
            _ = entry.factory


def test_a_missing_optional_dependency_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = Entry("data", "mine", "gone.prompts:mine", "mine", "strange-dist", extra="fast")
    with pytest.raises(PluginError, match="No module named 'gone'"):  # in no such group
        _ = entry.factory
    monkeypatch.setattr("outrider.plugins.entry.lacking", lambda *_: ["gone"])
    with pytest.raises(ConfigError, match=r"^data=mine needs gone: pip install 'strange-dist\["):
        _ = entry.factory


@pytest.fixture
def broken(install: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plugins of which only `good` is sound, in a process that has read no registry yet."""

    def fails(register: Any) -> None:
        register("half", NoDraft)
        raise ZeroDivisionError("oh")

    def exits(register: Any) -> None:
        sys.exit(0)

    good = registered("good", NoDraft)
    install(
        EntryPoint("gone", ImportError("no module\nnamed x")),
        EntryPoint("exits", plugin(register_drafters=exits)),
        EntryPoint("a_class", NoDraft),
        EntryPoint("misspelt", plugin(register_draftes=lambda register: None)),
        EntryPoint("fails", plugin(register_drafters=fails)),
        EntryPoint("taken", registered("bigram", NoDraft)),
        EntryPoint("slashed", registered("x/bad", NoDraft)),
        EntryPoint("one_path", plugin(config_search_paths=lambda: "pkg://mine.conf")),
        EntryPoint("good", good),
        EntryPoint("again", good, "another-dist"),
        EntryPoint("good", registered("other", NoDraft)),
    )
    return inspect.unwrap(registries.installed)


def test_broken_plugins_are_left_out_and_named(
    broken: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    known = broken()
    drafters = known.of("drafter")
    assert "good" in drafters and drafters["bigram"].distribution == "outrider"
    assert not {"half", "other", "x/bad"} & drafters.keys()
    assert known.search_paths == builtin().search_paths
    told = capsys.readouterr()
    assert told.out == "" and told.err.splitlines() == known.faults
    for name, reason in {
        "gone": "plugin 'gone' of strange-dist can't be loaded: ImportError: no module named x",
        "exits": "plugin 'exits' of strange-dist failed in exits: SystemExit: 0",
        "a_class": "NoDraft is a class: expected a module or an instance",
        "misspelt": "register_draftes",
        "fails": "ZeroDivisionError: oh",
        "taken": "'bigram' of strange-dist is taken: outrider registered that name before",
        "slashed": "drafter 'x/bad' of strange-dist: expected a name of letters",
        "one_path": "returned 'pkg://mine.conf': expected a list",
        "again": "plugin 'again' of another-dist can't be loaded: ValueError: it has the hooks of",
        "good": "another entry point has that name",
    }.items():
        (fault,) = (line for line in known.faults if f"OUTRIDER_BLOCK_PLUGINS={name} " in line)
        assert reason in fault, fault
    with pytest.raises(ConfigError, match=r"drafter='half': .*; .*ZeroDivisionError: oh"):
        known.find("drafter", "half")


def registering(register: Any) -> None:
    register("mine", NoDraft)


def yields(register: Any) -> Iterator[None]:
    yield register("mine", NoDraft)


SILENT = "plugin 'mine' of strange-dist registers nothing: expected functions with outrider.hook"


@pytest.mark.parametrize(
    ("hook", "line"),
    [
        (registering, SILENT),
        (pluggy.HookimplMarker("other")(registering), SILENT),
        (hookimpl(yields), "yields.. returned generator: expected None, and calls of register"),
    ],
)
def test_a_plugin_that_registers_nothing_is_named_where_its_part_is_missed(
    install: Any, hook: Any, line: str
) -> None:
    install(EntryPoint("mine", SimpleNamespace(register_drafters=hook)))
    with pytest.raises(ConfigError, match=f"drafter='mine': .*; .*{line}"):
        inspect.unwrap(registries.installed)().find("drafter", "mine")


def test_a_line_that_is_written_twice_counts_once(install: Any) -> None:
    install(*(metadata.EntryPoint("twice", "outrider.plugins.roles", "outrider") for _ in "12"))
    (line,) = registry().silent
    assert line.startswith("plugin 'twice' of twice registers nothing")
    install(metadata.EntryPoint("dashed", "my-plug", "outrider"))
    with pytest.raises(PluginError, match=r"'dashed' of .*: ValueError: 'my-plug' names no module"):
        registry()


def test_prints_of_a_plugin_are_no_result(
    install: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda self: print("hello") or self.thing)
    install(EntryPoint("chatty", registered("chatty", NoDraft)))
    assert "chatty" in registry().of("drafter")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "hello\n")
