"""transformers as an entrant of the bench: `python -m outrider.bench.peer_transformers`."""

import time
from typing import Any

import torch

from outrider.bench.protocol import Answer, serve


def start(settings: dict[str, Any]) -> Answer:
    """Loads the model, and returns the function that writes texts with it.

    settings: `model`, `dtype`, `gamma`, and `options` for `generate`; `assistant_model` is the
        folder or hub id of a model.
    """
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    dtype = getattr(torch, settings["dtype"])
    model = auto.from_pretrained(settings["model"], dtype=dtype).eval()
    options = dict(settings["options"])
    if "assistant_model" in options:
        assistant = auto.from_pretrained(options["assistant_model"], dtype=dtype).eval()
        options["assistant_model"] = assistant
        # The default schedule would change the draft length as it goes.
        assistant.generation_config.num_assistant_tokens = settings["gamma"]
        assistant.generation_config.num_assistant_tokens_schedule = "constant"

    def write(question: dict[str, Any]) -> dict[str, Any]:
        ids = torch.tensor([question["ids"]])
        began = time.perf_counter()
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=question["max_new_tokens"],
            pad_token_id=0,
            **options,
        )
        seconds = time.perf_counter() - began
        return {"tokens": output[0, ids.shape[1] :].tolist(), "seconds": seconds}

    return write


if __name__ == "__main__":
    serve(start)
