"""economize as an entrant of the bench: run by its path, in an environment without Outrider."""

import time
from typing import Any

import torch
from protocol import Answer, serve  # type: ignore[import-not-found]


def start(settings: dict[str, Any]) -> Answer:
    """Loads the model, and returns the function that writes texts with it.

    settings: `model`, `dtype`, and `lookup`: prompt lookup's `max_n`, `min_n` and `gamma`, or None.
    """
    import economize  # type: ignore[import-not-found]
    from economize.techniques.lookup import LookupConfig  # type: ignore[import-not-found]
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    base = auto.from_pretrained(settings["model"], dtype=getattr(torch, settings["dtype"])).eval()
    stop = base.generation_config.eos_token_id
    lookup = settings["lookup"] or {"max_n": 1, "min_n": 1, "gamma": 0}
    config = LookupConfig(max_ngram=lookup["max_n"], min_ngram=lookup["min_n"], match="latest")
    model = economize.apply(base, config)
    # A cycle is a draft and the token after it: one token a cycle is plain decoding.
    decoding = economize.DecodeConfig(cycle_length=lookup["gamma"] + 1)

    def write(question: dict[str, Any]) -> dict[str, Any]:
        ids = torch.tensor(question["ids"])
        began = time.perf_counter()
        result = model.decode(ids, question["max_new_tokens"], decoding=decoding, stop=stop)
        seconds = time.perf_counter() - began
        return {"tokens": result.tokens.tolist(), "seconds": seconds}

    return write


if __name__ == "__main__":
    serve(start)
