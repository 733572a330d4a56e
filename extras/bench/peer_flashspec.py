"""flashspec as an entrant of the bench: run by its path, in an environment without Outrider."""

import time
from typing import Any

import torch
from protocol import Answer, serve  # type: ignore[import-not-found]


def start(settings: dict[str, Any]) -> Answer:
    """Loads the model, and returns the function that writes texts with it.

    settings: `model`, `dtype`, and `lookup`: prompt lookup's `max_n`, `min_n` and `gamma`.
    """
    from flashspec.engine.ngram import NgramDrafter  # type: ignore[import-not-found]
    from flashspec.engine.speculative import SpeculativeEngine  # type: ignore[import-not-found]
    from flashspec.engine.verifier import TargetModel  # type: ignore[import-not-found]
    from flashspec.utils.config import (  # type: ignore[import-not-found]
        BanditConfig,
        FlashSpecConfig,
        SamplingConfig,
    )
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    dtype = getattr(torch, settings["dtype"])
    model = auto.from_pretrained(settings["model"], dtype=dtype).eval()
    stop = model.generation_config.eos_token_id
    lookup = settings["lookup"]
    config = FlashSpecConfig(
        device="cpu",
        compile=False,
        dtype=settings["dtype"],
        eos_token_ids=tuple(stop) if isinstance(stop, list) else (stop,),
        bandit=BanditConfig(n_arms=1),
        sampling=SamplingConfig(gamma=lookup["gamma"], temperature=0.0),
    )
    drafter = NgramDrafter(max_ngram=lookup["max_n"], min_ngram=lookup["min_n"])
    target = TargetModel(settings["model"], torch.device("cpu"), dtype, model=model)
    engine = SpeculativeEngine(config, [drafter], target)

    def write(question: dict[str, Any]) -> dict[str, Any]:
        ids = torch.tensor([question["ids"]])
        began = time.perf_counter()
        result = engine.generate(ids, max_new_tokens=question["max_new_tokens"])
        seconds = time.perf_counter() - began
        return {"tokens": result.output_ids[0].tolist(), "seconds": seconds}

    return write


if __name__ == "__main__":
    serve(start)
