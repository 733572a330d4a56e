"""Checks of a recipe: each takes a callable that makes one, and raises AssertionError."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.base.terminal import QUIET, switched_on
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.data.prompts import Prompt
from outrider.drafters.ngram import bigram
from outrider.extras.training.recipe import Job, Recipe
from outrider.extras.training.rows import read_rows
from outrider.extras.training.speculators_data import find_state_files, read_state_files
from outrider.lab.runs.report import Report
from outrider.plugins.parts import make as make_part
from outrider.plugins.roles import ROLES
from outrider.targets.passes.cached_model import HIDDEN
from outrider.testing.tiny_targets import SAMPLED, VOCAB_SIZE, draft_after, tiny_target
from outrider.verifiers.token import Token

Make = Callable[[], Recipe]

PROMPTS = tuple(
    Prompt(str(n), "letters", (text,)) for n, text in enumerate(("a b c", "b d", "c a"))
)


def check_a_part_is_made_that_loads(make: Make) -> None:
    """Training writes a part that loads by what the recipe returns; a drafter writes a draft."""
    target = tiny_target(VOCAB_SIZE)
    with TemporaryDirectory(prefix="outrider-") as folder, switched_on(QUIET, True):
        made = make()(tiny_job(Path(folder)))
        role = next((role for role in ROLES if role in made), None)
        assert role is not None, f"it returned {made!r}: expected a role and a name, with settings"
        part = make_part(role, dict(made))
        if isinstance(part, Drafter):
            part.bind(target)
            for prompt in ([0, 1], [2, 3, 1]):
                draft = draft_after(part, target, prompt, 3)
                assert all(0 <= token < VOCAB_SIZE for token in draft.tokens), f"drafted {draft}"


def tiny_job(folder: Path) -> Job:
    """Returns a job for a tiny target, with three prompts. folder: for all that it writes."""
    target = tiny_target(VOCAB_SIZE)
    return Job(
        target=target,
        writer=lambda: target,
        drafter=bigram,
        verifier=Token(),
        sampling=Sampling(temperature=SAMPLED.temperature, seed=1),
        prompts=PROMPTS,
        chat=False,
        openings=["a", "b c", "d"],
        question_tokens=6,
        gamma=3,
        max_new_tokens=8,
        draft_timeout=None,
        command="outrider check",
        origin={},
        folder=folder,
        out=folder / "trained",
        log=Report().log,
    )


CHECKS = (check_a_part_is_made_that_loads,)


def check_data_are_read_again(make: Make) -> None:
    """What is written is read as rows, with the target's states along each of them."""
    with TemporaryDirectory(prefix="outrider-") as folder, switched_on(QUIET, True):
        job = tiny_job(Path(folder))
        rows = make()(job).get("recipe.rows")
        assert isinstance(rows, str), "expected the folder of the rows, as recipe.rows"
        texts, files = read_rows(rows, job.target, 99), find_state_files([rows])
        assert files is not None, f"expected files hs_0.safetensors and on in {rows}"
        examples = read_state_files(job.target, texts, [HIDDEN], files)
        for number, text in enumerate(texts):
            states = examples.read(number)[HIDDEN]
            assert len(states) == len(text.ids), f"row {number}: {len(states)} states"


DATA_CHECKS = (check_data_are_read_again,)
