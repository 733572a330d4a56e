"""Loaded by vLLM in each process, as one of its plugins; does nothing unless asked."""

import os

PATCH = "OUTRIDER_VLLM_PATCH"
"""The environment variable that asks for the patches, as `serve-config` and `serve-check` do."""


def register() -> None:
    """Patches vLLM's sampling on CPUs and its second model runner, if `OUTRIDER_VLLM_PATCH=1`."""
    if os.environ.get(PATCH) != "1":
        return
    from outrider.extras.serving import vllm_patch

    vllm_patch.patch_sampling()
    vllm_patch.patch_second_runner()
