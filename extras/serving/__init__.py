"""Runs drafters inside vLLM and inside transformers' own `generate`.

`transformers` puts a drafter and a rule in the place of a model's decoding loop: `generate_call` is
what one call of `generate` asks for, with the texts of its batch. `vllm` holds the proposer that
vLLM loads, with the patch in `vllm_patch`. `export` and `checkpoints` write learned drafters in the
formats of engines. `vllm_server` runs vLLM as a process, `serve_check` compares its texts and
counts with Outrider's own. `lm_eval` is a model of lm-evaluation-harness.

Start with `transformers.Speculation` or `vllm.OutriderProposer`.
"""
