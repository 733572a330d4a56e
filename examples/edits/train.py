"""Trains two small T5 models that copy-edit sentences, a target and its draft, in minutes.

python examples/edits/train.py --out edits
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
from grammar import clean, spoiled, vocabulary
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

SPECIAL = ("<pad>", "</s>", "<unk>")
"""The ids 0, 1 and 2, as T5 has them."""
BATCH = 64
"""Sentences a step, all of them new."""
TARGET = {"width": 128, "layers": 3, "steps": 1500}
DRAFT = {"width": 48, "layers": 1, "steps": 500}
"""The size of each model, and its steps of training."""
QUESTIONS = 60
"""The number of spoiled sentences to measure on, which neither model has seen."""


def tokenizer() -> Any:
    """Returns a tokenizer of whole words, which ends a source with </s>."""
    words = {word: token for token, word in enumerate((*SPECIAL, *vocabulary()))}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def model(words: int, width: int, layers: int) -> Any:
    """Returns an untrained T5."""
    config = T5Config(
        vocab_size=words,
        d_model=width,
        d_ff=4 * width,
        d_kv=16,
        num_heads=width // 16,
        num_layers=layers,
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def batch(draw: random.Random, encode: Any) -> dict[str, torch.Tensor]:
    """Returns spoiled sentences, with the clean ones as labels."""
    pairs = []
    for _ in range(BATCH):
        sentence = clean(draw)
        pairs.append((spoiled(sentence, draw), sentence))
    sources, texts = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    inputs = encode(sources, padding=True, return_tensors="pt")
    labels = encode(texts, padding=True, return_tensors="pt")["input_ids"]
    return {
        "input_ids": inputs["input_ids"],
        "attention_mask": inputs["attention_mask"],
        "labels": labels.masked_fill(labels == 0, -100),
    }


def train(name: str, encode: Any, *, width: int, layers: int, steps: int, seed: int) -> Any:
    """Returns a trained T5.

    name: of the model, for the seed and for messages. encode: the tokenizer.
    """
    torch.manual_seed(seed)
    draw = random.Random(f"{name} {seed}")
    learner = model(len(encode), width, layers).train()
    optimizer = torch.optim.AdamW(learner.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=steps, pct_start=0.1
    )
    began = time.monotonic()
    for step in range(1, steps + 1):
        loss = learner(**batch(draw, encode)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == steps:
            seconds = time.monotonic() - began
            print(
                f"{name}: step {step} of {steps}, loss {loss.item():.3f}, {seconds:.0f} s",
                flush=True,
            )
    return learner.eval()


def make(
    out: Path, target: dict[str, int] = TARGET, draft: dict[str, int] = DRAFT, seed: int = 0
) -> None:
    """Writes the folders `target` and `draft` and the file `questions.jsonl` into a folder."""
    encode = tokenizer()
    for name, size in (("target", target), ("draft", draft)):
        trained = train(name, encode, **size, seed=seed)
        trained.save_pretrained(out / name)
        encode.save_pretrained(out / name)
    draw = random.Random(f"questions {seed}")
    lines = [
        {
            "id": f"edit-{number}",
            "category": "edits",
            "prompt": " ".join(spoiled(clean(draw), draw)),
        }
        for number in range(1, QUESTIONS + 1)
    ]
    (out / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("edits"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    make(options.out, seed=options.seed)
    print(options.out)
