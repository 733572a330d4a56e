"""What a server promises beside its distribution: seeds repeat, stop strings end a text."""

from collections.abc import Sequence
from dataclasses import replace

from outrider.contract.sampling import Sampling
from outrider.extras.serving.audit.client import Client, Request
from outrider.extras.serving.audit.expected import BROKEN

WARM = Sampling(temperature=1.0)

TEXTS = 4
"""From how many texts stop strings are taken."""

MOST = 2 + TEXTS
"""The most requests that trying all of it sends."""


def seeds_repeat(client: Client, prompt: Request, seed: int) -> str | None:
    """Returns what is wrong if a request with a seed has another text the second time."""
    request = replace(prompt, sampling=WARM, seed=seed)
    first, second = (client.ask([request])[0][0].text for _ in range(2))
    return None if first == second else f"seed {seed} gave {first!r}, then {second!r}"


def stops_end(client: Client, prompt: Request, texts: Sequence[str]) -> str | None:
    """Returns what is wrong if a text goes on after its stop string.

    texts: some that the server wrote, in the middle of which stop strings are found.
    """
    for text in texts:
        stop = text[len(text) // 2 : len(text) // 2 + 1]
        if not stop.strip() or stop == BROKEN:
            continue
        request = replace(prompt, sampling=WARM, stop=(stop,))
        written = client.ask([request])[0][0].text
        if stop in written.removesuffix(stop):
            return f"stop {stop!r} is inside {written!r}"
    return None
