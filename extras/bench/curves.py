"""How time grows with the rows of a pass and its context, and throughput with the batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outrider.extras.bench.worker import Worker

Curve = tuple[list[int], list[float]]
"""The x values and the y values."""

ROWS_CONTEXT, ROWS_REPEATS = 256, 15
"""The context of the passes whose time is measured by rows, and how often each is timed."""

CONTEXT_REPEATS = 9


def count_curve_steps(settings: Mapping[str, Any]) -> int:
    """Returns how often `measure_curves` calls `on_step`."""
    return 1 + len(settings["batches"]) + len(settings["contexts"])


def measure_curves(
    worker: Worker,
    together: Mapping[str, Worker],
    prompts: Sequence[list[int]],
    settings: Mapping[str, Any],
    on_step: Callable[[], None],
) -> dict[str, Curve]:
    """Returns the curves by name.

    rows: milliseconds of a pass, by the rows that it scores.
    batches: tokens per second, by the texts written at once, after the prompts have been read.
    batches with prompts: the same, including the reading of the prompts; also of those entrants
        that write several texts at once, in turn.
    contexts: milliseconds of a pass that scores a draft, by the tokens of context.

    worker: Outrider without drafts. together: the workers to write several texts at once.
    settings: `rows`, `batches`, `contexts`, `gamma` and `max_new_tokens` of the bench's config.
    """
    curves = {"rows": _times_by_rows(worker, list(settings["rows"]))}
    on_step()
    curves |= _speeds_by_batch({"": worker, **together}, prompts, settings, on_step)
    curves["contexts"] = _times_by_context(worker, settings, on_step)
    return curves


def _times_by_rows(worker: Worker, rows: list[int]) -> Curve:
    question = {"ask": "rows", "rows": rows, "context": ROWS_CONTEXT, "repeats": ROWS_REPEATS}
    return rows, [1000 * seconds for seconds in worker.ask(question)["times"]]


def _speeds_by_batch(
    workers: Mapping[str, Worker],
    prompts: Sequence[list[int]],
    settings: Mapping[str, Any],
    on_step: Callable[[], None],
) -> dict[str, Curve]:
    batches, speeds = list(settings["batches"]), dict[str, list[float]]()
    for batch in batches:
        # More than are in progress at once, so that texts come and go.
        count = max(len(prompts), batch + batch // 2)
        texts = [prompts[number % len(prompts)] for number in range(count)]
        question = {"prompts": texts, "batch": batch, "max_new_tokens": settings["max_new_tokens"]}
        for name, worker in workers.items():
            answer = worker.ask({"ask": "texts", **question})
            if not name:
                speeds.setdefault("batches", []).append(answer["decoding"])
            suffix = f", {name}" if name else ""
            speeds.setdefault(f"batches with prompts{suffix}", []).append(answer["whole"])
        on_step()
    return {name: (list(batches), values) for name, values in speeds.items()}


def _times_by_context(
    worker: Worker, settings: Mapping[str, Any], on_step: Callable[[], None]
) -> Curve:
    contexts, times, rows = list(settings["contexts"]), [], [settings["gamma"] + 1]
    for context in contexts:
        question = {"ask": "rows", "rows": rows, "context": context, "repeats": CONTEXT_REPEATS}
        times.append(1000 * worker.ask(question)["times"][0])
        on_step()
    return contexts, times
