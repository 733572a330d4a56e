"""llama.cpp as an entrant of the bench: `python llama_cpp.py`, in an environment with xllamacpp.

It runs by its path, as `peer` does, and imports nothing of Outrider.
"""

import json
import os
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from itertools import product
from time import perf_counter
from typing import Any

LENGTHS, LEAST = (2, 4, 8), (0.0, 0.4)
"""The draft lengths that are tried, and the probabilities below which a draft ends."""
ORDER = ("temperature", "top_k", "top_p", "min_p")
"""What makes logits a distribution, in Outrider's order; llama.cpp's own differs."""


def trials(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the settings to choose from: lengths of a draft, or nothing without drafts.

    With a draft model at a temperature, drafts are both drawn and greedy, since either may win.
    """
    if lookup := settings.get("lookup"):
        grams = sorted({lookup["min_n"], lookup["max_n"]})
        return [{"size_n": n, "size_m": length} for n, length in product(grams, LENGTHS)]
    if not settings.get("draft"):
        return [{}]
    draws = (False, True) if settings["sampling"]["temperature"] else (False,)
    names = ("n_max", "p_min", "probabilistic")
    return [dict(zip(names, each, strict=True)) for each in product(LENGTHS, LEAST, draws)]


def server(settings: Mapping[str, Any], choice: Mapping[str, Any]) -> Any:
    """Returns llama.cpp's server, which runs in this process.

    settings: `model`, a GGUF file; the draft's, `draft`, or the lengths of prompt lookup, `lookup`,
        or neither. choice: one of `trials`.
    """
    import xllamacpp as library

    params, kinds = library.CommonParams(), library.common_speculative_type
    params.model.path = settings["model"]
    params.n_ctx, params.n_parallel, params.port = 4096, 1, 0
    params.cache_ram_mib = 0  # prompts of earlier repeats are read again
    drafts = params.speculative
    for holder in (params, drafts.draft):
        for threads in (holder.cpuparams, holder.cpuparams_batch):
            threads.n_threads = len(os.sched_getaffinity(0))  # the default: one for each core
    if settings.get("lookup"):
        drafts.types, options = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE], drafts.ngram_simple
    elif settings.get("draft"):
        drafts.types, options = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE], drafts.draft
        drafts.draft.mparams.path = settings["draft"]
    for name, value in choice.items():
        setattr(options, name, value)
    return library.Server(params)


def start(settings: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Starts the server, and returns the function that writes the texts that the bench asks for.

    settings: those of `server`, and `sampling`.
    """
    choices, options = trials(settings), {"samplers": ORDER, **settings["sampling"]}
    chosen, running = choices[0], [server(settings, choices[0])]

    def restart(choice: dict[str, Any]) -> None:
        nonlocal chosen
        if choice is not chosen:  # a server that was asked nothing may never end
            running.clear()  # there is memory for one
            running.append(server(settings, choice))
        chosen = choice

    def write(question: Mapping[str, Any]) -> dict[str, Any]:
        if "trial" in question and len(choices) > 1:
            speeds = [speed(choice, **question["trial"]) for choice in choices]
            restart(choices[speeds.index(max(speeds))])
        began = perf_counter()
        answer = posted(running[0], question["ids"], question["max_new_tokens"], options)
        seconds, times = perf_counter() - began, answer["timings"]
        count = int(times["predicted_n"])
        return {
            "tokens": answer["tokens"],
            "seconds": seconds,
            "calls": count - int(times.get("draft_n_accepted", 0)),
            # The first token is drawn when the prompt has been read.
            "decoding": [count - 1, times["predicted_ms"] / 1000],
            "chosen": chosen,
        }

    def speed(choice: dict[str, Any], prompts: list[list[int]], max_new_tokens: int) -> float:
        """Returns the tokens per second of some prompts' texts."""
        restart(choice)
        write({"ids": prompts[0], "max_new_tokens": 8})  # does not count
        texts = [write({"ids": ids, "max_new_tokens": max_new_tokens}) for ids in prompts]
        seconds: float = sum(text["seconds"] for text in texts)
        return sum(len(text["tokens"]) for text in texts) / seconds

    return write


def posted(running: Any, ids: list[int], limit: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a server's answer to a request for a text of at most `limit` tokens.

    Raises `RuntimeError` with its reason, if it refused.
    """
    request = {"prompt": ids, "n_predict": limit, "cache_prompt": False, "return_tokens": True}
    connection = HTTPConnection(running.listening_address.removeprefix("http://"))
    connection.request("POST", "/completion", json.dumps(request | dict(options)))
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer


if __name__ == "__main__":
    from peer import serve  # type: ignore[import-not-found]

    serve(start)
