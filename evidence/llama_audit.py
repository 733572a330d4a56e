"""Audits a llama.cpp server of SmolLM2 in float32 on the target's exact distribution.

python evidence/llama_audit.py http://127.0.0.1:8080

At temperature 1 and greedy alone: llama.cpp truncates before it applies the temperature, and counts
the prompt's tokens for penalties. Its log-probabilities are left out: those inside drafts are none.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from outrider.extras.serving.audit import plan
from outrider.extras.serving.audit.audit import Auditor
from outrider.extras.serving.audit.client import Choice, Client, OpenAIClient, Request
from outrider.extras.serving.audit.expected import FromTarget
from outrider.plugins.registry import make

PROMPTS = (  # that n-grams can continue
    "red blue green red blue green red blue green red blue",
    "The cat sat on the mat. The dog sat on the mat. The cow sat on the",
)
KIND = "temperature 1"


@final
class WithoutLogprobs(Client):
    """Keeps the ids that are told beside log-probabilities, and not these."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        answers = self._client.ask(requests)
        return [[replace(each, logprobs=None, likeliest=()) for each in row] for row in answers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=12)
    options = parser.parse_args()
    for kind in set(plan.KINDS) - {KIND}:
        del plan.KINDS[kind]
    target = make("target", "smollm2")
    prompts = [Request(tuple(target.encode(prompt)), options.tokens) for prompt in PROMPTS]
    client = WithoutLogprobs(OpenAIClient(options.url, logprobs=1))
    result = Auditor(client, prompts, FromTarget(target)).run(options.requests)
    print(f"{result.line}; {result.requests} requests")
    for finding in result.findings:
        print(f"    {finding.name}: e^{finding.growth:.1f} {finding.fault or ''}")
    print(f"    the control: e^{result.control:.1f}; ties: {result.ties}")


if __name__ == "__main__":
    main()
