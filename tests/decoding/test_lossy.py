"""lossy=refuse: whatever is not exact is refused before a token is written."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from outrider import ConfigError, generate, generate_together
from outrider.contract.policy import Fixed
from outrider.decoding.generation import Generation
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.lenient import Lenient
from outrider.verifiers.token import Token

ROOT = Path(__file__).parents[2]


def lossy(part: Any) -> Any:
    part.lossless = False
    return part


class Lucky(Fixed):
    lossless = False


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"verifier": Lenient(0.5)}, "verifier Lenient is lossy"),
        ({"target": lossy(TabularTarget())}, "target TabularTarget is lossy"),
        ({"policy": Lucky()}, "policy Lucky is lossy"),
    ],
)
@pytest.mark.parametrize("together", [False, True])
def test_a_part_that_is_not_exact_is_refused(
    parts: dict[str, Any], line: str, together: bool
) -> None:
    given = {"target": TabularTarget(), "drafter": "none", "verifier": Token(), **parts}
    target, drafter, verifier = (given.pop(role) for role in ("target", "drafter", "verifier"))

    def write(**options: Any) -> list[Generation]:
        if not together:
            return [generate(target, [1], drafter, verifier, **given, **options)]
        policies = {"policies": [given["policy"]]} if given else {}
        return generate_together(target, [[1]], drafter, verifier, **policies, **options)

    assert write(max_new_tokens=3)[0].tokens
    with pytest.raises(ConfigError, match=f"lossy=refuse: {line}: expected one that is") as raised:
        write(max_new_tokens=3, lossy="refuse")
    written = [*getattr(raised.value, "generations", [])]
    assert not any(text.tokens for text in written)


@pytest.mark.parametrize("command", ["generate", "compare"])
@pytest.mark.parametrize("rule", ["token", "lenient"])
def test_a_run_of_exact_parts_alone_has_a_certificate(
    run: Any, folder: Path, tmp_path: Path, command: str, rule: str
) -> None:
    one = ["prompt=[1,2]", "drafter=none"] if command == "generate" else ["drafters=[none]"]
    data = tmp_path / "prompts.jsonl"
    data.write_text('{"prompt": "a"}\n')
    several = ["data=jsonl", f"data.path={data}", "protocol=decode", "target=transformers"]
    several.append(f"target.model={folder}")
    target = ["target=tabular"] if command == "generate" else several
    more = ["lossy=refuse", "max_new_tokens=2", f"hydra.run.dir={tmp_path / 'out'}"]
    status, out, err = run(command, *one, *target, f"verifier={rule}", *more)
    certificate = tmp_path / "out" / "certificate.json"
    if rule == "lenient":
        assert status == 1 and "verifier Lenient is lossy" in err, out + err
        assert not certificate.exists()
        return
    facts = json.loads(certificate.read_text())
    assert facts["lossless"] and len(facts["sha256"]) == 64
    assert "outrider.verifiers.token" in json.dumps(facts["parts"])


def test_rollouts_for_a_trainer_have_the_log_probabilities_of_its_policy(smollm2: Any) -> None:
    rollouts = runpy.run_path(str(ROOT / "examples" / "trl_rollouts.py"))["rollouts"]
    trainer = SimpleNamespace(
        model=smollm2.model,
        processing_class=smollm2.tokenizer,
        args=SimpleNamespace(temperature=1.0, seed=0, max_completion_length=4),
        state=SimpleNamespace(global_step=0),
    )
    found = rollouts(["Name a river.", "Name a river."], trainer)
    assert found["completion_ids"][0] != found["completion_ids"][1]
    for prompt, ids, logprobs in zip(*found.values(), strict=True):
        with torch.no_grad():
            logits = smollm2.model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
        expected = logits.log_softmax(-1)[range(len(ids)), ids]
        assert logprobs == pytest.approx(expected.tolist(), abs=1e-3)
