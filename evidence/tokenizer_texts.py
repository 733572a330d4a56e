"""Random texts over ten kinds of tokenizers: the pieces of a stream add up to one decode.

python evidence/tokenizer_texts.py --texts 10000
"""

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tiny.tokenizer_kinds import TOKENIZERS, random_ids, tokenizer_of

from outrider.decoding.detokenizer import Detokenizer


def differing(kind: str, texts: int) -> list[list[int]]:
    """Returns the ids of the texts whose pieces are not one decode of all ids."""
    tokenizer, draw, found = tokenizer_of(kind), random.Random(kind), list[list[int]]()
    for _ in range(texts):
        ids, stream = random_ids(kind, draw), Detokenizer(tokenizer, [])
        text = "".join([stream.push(token) for token in ids]) + stream.pending
        if text != tokenizer.decode(ids, skip_special_tokens=True):
            found.append(ids)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=int, default=10_000, help="of each kind")
    texts = parser.parse_args().texts
    found = {kind: differing(kind, texts) for kind in TOKENIZERS}
    for kind, ids in found.items():
        print(f"{kind:14}{texts - len(ids):7} of {texts} texts are one decode", *ids[:1])
    print(f"{sum(map(len, found.values()))} texts differ")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
