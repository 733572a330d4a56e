"""Tasks of lm-evaluation-harness: their prompts, and how they score an answer."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from outrider.base.errors import ConfigError, require
from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Request

MARK = "lm_eval:"
"""What the name of such a task begins with."""


def scored_requests(
    task: str, max_tokens: int, sampling: Sampling
) -> Iterator[tuple[Request, Any]]:
    """Yields the prompts of a task, each as a user's turn, with what gives an answer its score.

    That is the task's first metric, after its first filter.

    task: a name, or the path of a task's YAML, after `MARK`.
    max_tokens: the length of an answer, if the task does not say.

    Raises `ConfigError` if there is no such task, or its answers are not texts.
    """
    try:
        from lm_eval.tasks import get_task_dict
    except ModuleNotFoundError as error:
        raise ConfigError(f"{task=} needs lm_eval: pip install 'outrider[harness]'") from error
    try:
        found = [*get_task_dict([task.removeprefix(MARK)]).values()]
    except KeyError as error:
        raise ConfigError(f"{task=}: expected a task of lm_eval: `lm_eval ls tasks`") from error
    kinds = [getattr(it, "OUTPUT_TYPE", "a group") for it in found]
    require(kinds == ["generate_until"], "task", task, f"one that writes texts, not {kinds[0]}")
    found[0].build_all_requests()
    for instance in found[0].instances:
        text, settings = instance.args[:2]
        until = settings.get("until") or ()
        length = settings.get("max_gen_toks", max_tokens)
        stop = (until,) if isinstance(until, str) else tuple(until)
        asked = Request((("user", text),), length, sampling, stop=stop)
        yield asked, partial(_score, found[0], instance)


def _score(task: Any, instance: Any, answer: str) -> float:
    instance.resps, task._instances = [answer], [instance]
    task.apply_filters()
    first = next(iter(instance.filtered_resps.values()))
    figures: Mapping[str, Any] = task.process_results(instance.doc, [first])
    name, figure = next(iter(figures.items()))
    is_number = isinstance(figure, int | float)
    require(is_number, "task", task.config.task, f"a score of each answer by {name}")
    return float(figure)
