"""The second runner's own rejection sampler on drafts of Outrider, their distributions included.

.venv-vllm/bin/python evidence/vllm_second_runner.py

Run it with the Python that has vLLM. Triton has no backend for CPUs there, so its interpreter runs
vLLM's kernels; for that, vLLM is told that there is one.
"""

import argparse
import os
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton.backends  # type: ignore[import-not-found]
from second_runner import GAMMA, Drawing, called, speculator

SIZE, LAST = 8, 2
HEATS = (1.0, 0.6)
DRAWS = torch.Generator().manual_seed(7)
TARGET, DRAFTER = (torch.randn(SIZE, SIZE, generator=DRAWS, dtype=torch.float64) for _ in range(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    rows = parser.parse_args().requests
    driver = SimpleNamespace(is_active=lambda: False)
    triton.backends.backends["cpu"] = SimpleNamespace(driver=driver)
    import triton.language as tl  # type: ignore[import-not-found]
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler_utils as sampler  # type: ignore[import-not-found]

    # The interpreter has no library of the device.
    sampler.tldevice = SimpleNamespace(log1p=lambda x: tl.log(1 + x))

    for heat in HEATS:
        for reported in (True, False):
            texts = {row: (row % SIZE, LAST) for row in range(rows)}
            drafting = speculator(lambda: Drawing(DRAFTER), texts, SIZE, slots=rows)
            temperature, seeds = torch.full((rows,), heat), torch.arange(rows) + 1000
            drafts = called(drafting, range(rows), temperature, seeds)
            before = torch.cat([torch.full((rows, 1), LAST), drafts], 1).flatten()
            wrong = torch.zeros_like(drafting.draft_logits)  # a negative control: q is uniform
            logits = (TARGET[before] / heat).float()
            ends = torch.arange(rows + 1, dtype=torch.int32) * (GAMMA + 1)
            places = torch.arange(GAMMA + 1, dtype=torch.int32).repeat(rows)
            sampled, counts = sampler.rejection_sample(
                logits,
                drafting.draft_logits if reported else wrong,
                before,
                ends,
                places + 1,
                torch.arange(rows, dtype=torch.int32),
                torch.arange(rows, dtype=torch.int32).repeat_interleave(GAMMA + 1),
                places,
                temperature,
                seeds,
                GAMMA,
            )
            name = "Outrider's q" if reported else "uniform q, which is wrong"
            _report(f"temperature {heat}, {name}", sampled, counts, heat)


def _report(name: str, sampled: torch.Tensor, counts: torch.Tensor, heat: float) -> None:
    """Prints the chi-square of the first tokens, and of the second ones by the first."""
    probs = (TARGET / heat).softmax(-1)
    first = sampled[:, 0]
    found = [(first.bincount(minlength=SIZE), probs[LAST])]
    for token in range(SIZE):
        second = sampled[(first == token) & (counts > 1), 1]
        found.append((second.bincount(minlength=SIZE), probs[token]))
    lines = []
    for seen in (found[:1], found[1:]):
        pooled = [_pooled(observed, expected) for observed, expected in seen]
        value = sum(value for value, _ in pooled)
        freedom = sum(degrees for _, degrees in pooled)
        halves = torch.tensor([freedom / 2, value / 2], dtype=torch.float64)
        p = float(torch.special.gammaincc(*halves))
        lines.append(f"chi-square {value:.1f} on {freedom}, p {p:.2g}")
    accepted = float(counts.double().mean()) - 1
    print(f"{name}: first token {lines[0]}; second {lines[1]}; {accepted:.2f} drafted accepted")


def _pooled(observed: torch.Tensor, probs: torch.Tensor) -> tuple[float, int]:
    """Returns the chi-square and its degrees of freedom, cells that expect under 5 taken as one."""
    expected = probs * observed.sum()
    large = expected >= 5
    cells = [(observed[large].double(), expected[large])]
    if float(expected[~large].sum()) > 0:
        rest = observed[~large].sum().double()[None], expected[~large].sum()[None]
        cells.append(rest)
    seen, wanted = (torch.cat(each) for each in zip(*cells, strict=True))
    if len(seen) < 2:
        return 0.0, 0
    return float(((seen - wanted) ** 2 / wanted).sum()), len(seen) - 1


if __name__ == "__main__":
    main()
