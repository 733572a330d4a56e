"""vLLM as an entrant of the bench: run by its path, in an environment without Outrider."""

import time
from typing import Any

from protocol import Answer, serve  # type: ignore[import-not-found]


def start(settings: dict[str, Any]) -> Answer:
    """Starts the engine, and returns the function that writes texts with it.

    settings: `model`, `dtype`, `max_model_len`, and `speculative`, the speculative config or None.
    """
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found]

    engine = LLM(
        model=settings["model"],
        dtype=settings["dtype"],
        max_model_len=settings["max_model_len"],
        speculative_config=settings["speculative"],
        disable_log_stats=True,
    )

    def write(question: dict[str, Any]) -> dict[str, Any]:
        engine.reset_prefix_cache()  # by default, a prompt is not read again in another repeat
        params = SamplingParams(temperature=0.0, max_tokens=question["max_new_tokens"])
        began = time.perf_counter()
        outputs = engine.generate({"prompt_token_ids": question["ids"]}, params, use_tqdm=False)
        seconds = time.perf_counter() - began
        return {"tokens": list(outputs[0].outputs[0].token_ids), "seconds": seconds}

    def write_together(question: dict[str, Any]) -> dict[str, Any]:
        engine.reset_prefix_cache()
        core = engine.llm_engine.engine_core.engine_core  # in this process; see `VLLM_ENVIRONMENT`
        core.scheduler.max_num_active_reqs = question["batch"]
        params = SamplingParams(temperature=0.0, max_tokens=question["max_new_tokens"])
        prompts = [{"prompt_token_ids": ids} for ids in question["prompts"]]
        began = time.perf_counter()
        outputs = engine.generate(prompts, params, use_tqdm=False)
        tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
        return {"whole": tokens / (time.perf_counter() - began)}

    answers = {"write": write, "texts": write_together}
    return lambda question: answers[question["ask"]](question)


if __name__ == "__main__":
    serve(start)
