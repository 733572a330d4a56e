"""The package as others get it: complete in a wheel, and open to a stranger's plugin."""

import json
import os
import re
import shutil
import sys
import tomllib
import venv
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from tiny.packages import command, run, walk

from outrider.cli.commands.new_plugin import write_plugin

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "outrider-my-bigram"
MORE, PAPERS = ROOT / "examples" / "outrider-more-drafters", ROOT / "examples" / "papers"
EXAMPLES = (EXAMPLE, MORE, PAPERS)
LONG = "not (test_papers and (goes_back or follow_recorded))"
"""Without the longest checks of the gallery, which `outrider check` runs."""
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
pytestmark = pytest.mark.first


def test_every_folder_with_code_or_configs_is_listed() -> None:
    listed = set(SETTINGS["tool"]["setuptools"]["packages"])
    packages = set()
    for folder, package in SETTINGS["tool"]["setuptools"]["package-dir"].items():
        for path in [*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("*.yaml")]:
            parts = path.parent.relative_to(ROOT / package).parts
            packages.add(".".join([folder, *parts]))
    assert packages == listed


def test_ci_runs_scripts_that_can_be_run() -> None:
    (workflow,) = (ROOT / ".github" / "workflows").glob("*.yml")
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    scripts = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert scripts == [".ci/run", ".ci/mutants", ".ci/clean-install"]
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


def test_no_module_of_the_core_hides_another_folder() -> None:
    for name in ("drafters", "verifiers", "policies", "constraints", "extras", "conf"):
        assert not (ROOT / "core" / name).exists()
        assert not (ROOT / "core" / f"{name}.py").exists()


def test_modules_stay_small() -> None:
    for folder in ("core", "constraints", "drafters", "extras", "policies", "verifiers"):
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text().splitlines()) <= 300, path


def test_the_wheel_holds_code_configs_and_prompts_but_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        *("outrider/__init__.py", "outrider/py.typed", "outrider/drafters/random.py"),
        *("outrider/verifiers/token.py", "outrider/conf/compare.yaml", "outrider/data/demo.jsonl"),
        *("outrider/cli/template/drafter.py.jinja", "outrider/extras/view/page/runs.html.jinja"),
        *("outrider/extras/cpu/c/library.c", "outrider/extras/cpu/c/threads.h"),
        "outrider/drafters/weights/eagle/model.safetensors",
    } <= names
    assert not [name for name in names if "/test_" in name or name.startswith(("core", "tests"))]


DOORS = ("command", "recipe", "engine", "data", "constraint", "report", "score")
"""The roles of the parts that one package of a stranger registers."""


BUILD = """
import os, sys
from setuptools.build_meta import build_wheel
out, *folders = sys.argv[1:]
for folder in folders:
    os.chdir(folder)
    build_wheel(out)
"""
"""Makes a wheel of each folder, in one process."""


@pytest.fixture(scope="module")
def stranger(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A throw-away environment with the wheel and four packages of plugins, installed plainly.

    Their dependencies come from the environment that the tests run in, through a path file.
    """
    folder = tmp_path_factory.mktemp("stranger")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    site = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=folder).strip()
    )
    copies = [shutil.copytree(example, folder / example.name) for example in EXAMPLES]
    doors = write_plugin("doors", DOORS, folder)
    run(sys.executable, "-c", BUILD, folder, *copies, doors, cwd=folder)
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile",
        "--target", site, wheel, *folder.glob("*.whl"), cwd=folder)  # fmt: skip
    own = [path for path in sys.path if path.endswith("site-packages")]
    # As plain paths: their .pth files, and with them this checkout, stay out.
    (site / "dependencies.pth").write_text("\n".join(own))
    return python


WITHOUT_THE_EXAMPLE = """
import os, sys
from outrider.cli import main as cli
from outrider.plugins.registry import installed
os.environ["OUTRIDER_BLOCK_PLUGINS"] = "my_bigram"
installed.cache_clear()
sys.argv = ["outrider", "plugins"]
cli.main()
del os.environ["OUTRIDER_BLOCK_PLUGINS"]
installed.cache_clear()
"""

TESTS = """
import pytest, re
class Shorter:
    def pytest_collection_modifyitems(self, items):
        further = re.compile("[a-z][1-9]]$")
        items[:] = [it for it in items if "distribution" in it.name or not further.search(it.name)]
imported = "ignore::pytest.PytestAssertRewriteWarning"
words = ["-q", "-p", "no:cacheprovider", "-W", imported, *{words}]
pytest.main(words, plugins=[Shorter()])
"""
"""Further settings of a part, whose checks are numbered, have those of distributions alone."""

GENERATE = ["generate", "target=tabular", "prompt=[0,1]", "max_new_tokens=30"]
DRAFTERS = ("my_bigram", "my_bigram_near")


@pytest.fixture(scope="module")
def printed(
    stranger: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """A folder in which a stranger ran each command, and what each of them printed."""
    model = ["target=transformers", f"target.model={folder}", "max_new_tokens=4", "gamma=2"]
    data = ["data=doors", "data.limit=2"]
    drafters = ["drafters=[none,bigram]", "protocol=overlap", "cache=false"]
    folder = tmp_path_factory.mktemp("commands")
    commands = [
        ["doors", "doors"],
        [*GENERATE, "constraint=doors", "constraint.length=9", "hydra.run.dir=guided"],
        ["compare", *model, *data, *drafters, "reports=[doors]", "hydra.run.dir=run"],
        [
            "train",
            *model,
            *data,
            *("recipe=doors", "recipe.texts=3", "out=trained", "hydra.run.dir=training"),
        ],
        [
            "train",
            *model,
            *data,
            *("drafter=falcon", "recipe.texts=3", "recipe.held_out=2", "recipe.vocabulary=25"),
            *("recipe.schedule.epochs=1", "out=falcon", "hydra.run.dir=network"),
        ],
        ["check", "recipe=doors", "recipe.texts=2", "score=doors"],
        [
            "generate",
            *model,
            *("target.optimize=doors", "prompt=the cat", "drafter=bigram"),
            "hydra.run.dir=engine",
        ],
        *([*GENERATE, f"drafter={name}", f"hydra.run.dir={name}"] for name in DRAFTERS),
        ["check", "drafter=my_bigram"],
        [*GENERATE, "drafter=my_bigram_near", "--cfg", "job"],
        ["plugins"],
    ]
    tests = sorted(str(file) for each in EXAMPLES for file in each.glob("test_*.py"))
    steps = [
        ("python", "import outrider; print(outrider.__file__)", []),
        *(command(*words) for words in commands),
        ("python", WITHOUT_THE_EXAMPLE, []),
        ("python", TESTS.format(words=["-k", LONG, *tests]), []),
    ]
    ends = walk(stranger, steps=steps, cwd=folder)
    assert [status for status, _ in ends] == ["0"] * len(steps), ends
    return folder, [text for _, text in ends]


def test_a_strangers_plugin_is_listed(printed: tuple[Path, list[str]]) -> None:
    _, (where, *_, listed, _, _) = printed
    assert "venv" in where
    assert str(ROOT / "core") not in where
    assert "my_bigram" in listed.split()


def test_a_strangers_plugin_decodes_with_its_preset_and_is_checked(
    printed: tuple[Path, list[str]],
) -> None:
    folder, (*_, checked, config, _, _, _) = printed
    for name in DRAFTERS:
        report = json.loads((folder / name / "generation.json").read_text())
        assert report["counts"]["emitted"] == 30
        assert report["counts"]["drafted"] > 0
    assert "NO" not in checked
    assert "reach: 32" in config


def test_a_stranger_uses_every_door(printed: tuple[Path, list[str]]) -> None:
    """A command, data, a constraint, a logger, a recipe, a score and an engine of one package."""
    folder, (_, counted, _, _, _, _, checked, *_) = printed
    assert counted == "100 prompts\n"
    tokens = json.loads((folder / "guided" / "generation.json").read_text())["tokens"]
    assert len(tokens) == 7 and all(a != b for a, b in pairwise(tokens))
    lines = (folder / "run" / "doors.csv").read_text().splitlines()
    assert lines == [f"overlap,0+{b},{name}" for b in (0, 1) for name in ("none", "bigram")]
    assert not (folder / "run" / "report.html").exists()
    assert (folder / "trained" / "model.safetensors").is_file()
    assert json.loads((folder / "falcon" / "config.json").read_text())["block"] == 2
    assert "NO" not in checked
    written = json.loads((folder / "engine" / "generation.json").read_text())
    assert written["counts"]["emitted"] == 4


def test_the_examples_pass_their_own_tests(printed: tuple[Path, list[str]]) -> None:
    assert re.search(r"^[1-9]\d{2} passed, \d+ deselected in", printed[1][-1], re.MULTILINE)


def test_a_blocked_plugin_is_not_registered(printed: tuple[Path, list[str]]) -> None:
    *_, listed, _ = printed[1]
    assert "my_bigram" not in listed.split()
    assert "prompt_lookup" in listed


def test_the_vllm_plugin_needs_no_more_than_make_installs(tmp_path: Path) -> None:
    """And neither that nor any other import opens a socket."""
    inside = re.search(r"^INSIDE := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert inside is not None
    # Of these vLLM has its own: the rest of ours may not be imported there.
    has = {"filelock", "jinja2", "numpy", "packaging", "rich", "safetensors"}
    has |= {"annotated-types", "pydantic", "torch", "transformers"}
    names = {
        re.split(r"[>=<]", requirement)[0] for requirement in SETTINGS["project"]["dependencies"]
    }
    missing = sorted(names - has - set(inside[1].split()))
    script = (
        "import socket\n"
        "def refuse(*a, **k): raise AssertionError('network at import')\n"
        "socket.socket.connect = refuse\n"
        "import sys; from outrider.extras.serving.vllm import from_environment\n"
        "print(type(from_environment()).__name__)\n"
        f"print([each for each in {missing} if each in sys.modules])\n"
        "import outrider, outrider.cli.main, outrider.plugins.registry, outrider.testing\n"
        "outrider.plugins.registry.installed()"
    )
    drafter = '{"_target_": "outrider.drafters.ngram.bigram"}'
    result = run(sys.executable, "-c", script, cwd=tmp_path, OUTRIDER_DRAFTER=drafter)
    assert result.splitlines() == ["NGram", "[]"]
