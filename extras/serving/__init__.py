"""Drafters at work inside vLLM and inside transformers' own `generate`.

`transformers` puts a drafter and a rule in the place of a model's decoding loop, with `call` (what
one call of `generate` asks for) and `row` (one text of its batch). `vllm` holds the proposer that
vLLM loads, with `requests` (whose drafter is whose). `export` writes learned drafters in vLLM's own
formats. `server` runs vLLM as a process, `check` compares its texts and counts with Outrider's own,
and `engine` lists what an environment with vLLM needs. `audit` asks any server whether it keeps its
model's distribution. `lm_eval` is a model of lm-evaluation-harness.

Serving may import everything except `commands` and `cli`, and knows nothing of Hydra. Start with
`transformers.Speculation` or `vllm.OutriderProposer`.
"""
