"""A grammar of plain English sentences, and the slips of somebody who types them in a hurry."""

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
    """Returns a sentence with slips in every fifth word or so.

    Case is lost, letters change places, numbers are in figures, endings are missing, words come
    twice; and articles are left out, so that which one stood there can only be guessed.
    """
    bare = dict(map(reversed, VERBS))
    found: list[str] = []
    place = 0
    while place < len(words):
        word, slip = words[place], draw.random() < 0.3
        place += 1
        if word in ("a", "an", "the") and draw.random() < 0.15:
            continue
        if word in TENS or word in UNITS:
            number = _value(word)
            if word in TENS and words[place] in UNITS[:9]:
                number += _value(words[place])
                place += 1
            found.append(str(number))
        elif word == "an" and slip:
            found.append("a")
        elif word in bare and slip:
            found.append(bare[word])
        elif word in SLIPS and slip:
            found.append(draw.choice(SLIPS[word]))
        elif word in (*NAMES, *DAYS) and slip:
            found.append(word.lower())
        elif word != "." or not slip:
            found.append(word)
        if found and draw.random() < 0.03:
            found.append(found[-1])
    return found


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
    """Returns every word of a sentence, spoiled or not."""
    capital = (*NAMES, *DAYS)
    every = [".", "a", "an", "the", "on", *capital, *map(str.lower, capital), *KINDS, *PLACES]
    every += [*LINKS, *NEAR, *UNITS, *TENS, *(str(value) for value in range(1, 100))]
    for pair in (*THINGS, *VERBS, *SLIPS.values()):
        every += pair
    return sorted(set(every))


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
    spoken = words[0] in ("honest",) or (words[0][0] in VOWELS and words[0] != "useful")
    return "an" if spoken else "a"


def _value(word: str) -> int:
    return UNITS.index(word) + 1 if word in UNITS else 10 * (TENS.index(word) + 2)
