"""A grammar of plain English sentences, and the slips of somebody who types in a hurry."""

import random

NAMES = ("Alice", "Bob", "Carla", "Dmitri", "Emma", "Farid", "Grace", "Hugo")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
THINGS = (
    ("apple", "apples"), ("book", "books"), ("boat", "boats"), ("cat", "cats"),
    ("egg", "eggs"), ("idea", "ideas"), ("letter", "letters"), ("orange", "oranges"),
    ("parcel", "parcels"), ("owl", "owls"), ("ticket", "tickets"), ("umbrella", "umbrellas"),
)  # fmt: skip
KINDS = ("old", "new", "small", "empty", "useful", "green", "heavy", "honest", "strange", "open")
PLACES = ("garden", "kitchen", "library", "market", "office", "station", "island", "river")
VERBS = (
    ("bring", "brings"), ("buy", "buys"), ("carry", "carries"), ("find", "finds"),
    ("hide", "hides"), ("keep", "keeps"), ("lose", "loses"), ("paint", "paints"),
    ("receive", "receives"), ("sell", "sells"), ("want", "wants"), ("watch", "watches"),
)  # fmt: skip
LINKS = ("and", "but", "because", "while")
NEAR = ("in", "behind", "near", "outside")
UNITS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "ten", "eleven", "twelve", "thirteen", "fourteen",
    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SLIPS = {
    "the": ("teh", "hte"), "and": ("adn", "nad"), "because": ("becuase", "becasue"),
    "but": ("btu",), "while": ("whlie",), "receives": ("recieves",), "receive": ("recieve",),
    "behind": ("behnid",), "outside": ("outsied",), "near": ("naer",), "strange": ("stragne",),
    "umbrella": ("umbrela",), "library": ("libary",), "parcel": ("parcle",), "useful": ("usefull",),
    "heavy": ("haevy",), "garden": ("gadren",), "kitchen": ("kichen",), "ticket": ("tickte",),
}  # fmt: skip
BARE = {singular: plural for plural, singular in VERBS}
"""Verbs without their ending."""
VOWELS = "aeiou"


def clean(draw: random.Random) -> list[str]:
    """Returns the words of a sentence of one or two clauses."""
    words = _clause(draw)
    if draw.random() < 0.6:
        words += [draw.choice(LINKS), *_clause(draw)]
    if draw.random() < 0.5:
        words += ["on", draw.choice(DAYS)]
    return [*words, "."]


def spoiled(words: list[str], draw: random.Random) -> list[str]:
    """Returns a sentence with slips in about every fifth word.

    Capitals are lost, letters swapped, numbers put in figures, endings dropped, words doubled.
    Articles are left out, so that a model can only guess which one stood there.
    """
    typed: list[str] = []
    position = 0
    while position < len(words):
        word, slips = words[position], draw.random() < 0.3
        position += 1
        if word in ("a", "an", "the") and draw.random() < 0.15:
            continue
        if word in TENS or word in UNITS:
            value = _value(word)
            if word in TENS and words[position] in UNITS[:9]:
                value += _value(words[position])
                position += 1
            typed.append(str(value))
        elif slips:
            typed += _slip(word, draw)
        else:
            typed.append(word)
        if typed and draw.random() < 0.03:
            typed.append(typed[-1])
    return typed


def _slip(word: str, draw: random.Random) -> list[str]:
    """Returns what is typed for a word by mistake; nothing for a full stop."""
    if word == "an":
        return ["a"]
    if word in BARE:
        return [BARE[word]]
    if word in SLIPS:
        return [draw.choice(SLIPS[word])]
    if word in (*NAMES, *DAYS):
        return [word.lower()]
    return [] if word == "." else [word]


def number(value: int) -> list[str]:
    """Returns a number below 100 in words.

    >>> number(42)
    ['forty', 'two']
    """
    if value < 20:
        return [UNITS[value - 1]]
    tens, units = TENS[value // 10 - 2], value % 10
    return [tens, UNITS[units - 1]] if units else [tens]


def vocabulary() -> list[str]:
    """Returns every word that can occur in a sentence, spoiled or not."""
    capital = (*NAMES, *DAYS)
    words = [".", "a", "an", "the", "on", *capital, *map(str.lower, capital), *KINDS, *PLACES]
    words += [*LINKS, *NEAR, *UNITS, *TENS, *(str(value) for value in range(1, 100))]
    for pair in (*THINGS, *VERBS, *SLIPS.values()):
        words += pair
    return sorted(set(words))


def _clause(draw: random.Random) -> list[str]:
    words = [draw.choice(NAMES), draw.choice(VERBS)[1]]
    one, many = draw.choice(THINGS)
    kind = [draw.choice(KINDS)] if draw.random() < 0.5 else []
    if draw.random() < 0.4:
        words += [*number(draw.randrange(2, 100)), *kind, many]
    else:
        words += [_article([*kind, one], draw), *kind, one]
    if draw.random() < 0.6:
        words += [draw.choice(NEAR), "the", draw.choice(PLACES)]
    return words


def _article(words: list[str], draw: random.Random) -> str:
    if draw.random() < 0.5:
        return "the"
    starts_with_vowel = words[0][0] in VOWELS
    if words[0] in ("honest", "useful"):  # spoken unlike they are spelt
        starts_with_vowel = not starts_with_vowel
    return "an" if starts_with_vowel else "a"


def _value(word: str) -> int:
    return UNITS.index(word) + 1 if word in UNITS else 10 * (TENS.index(word) + 2)
