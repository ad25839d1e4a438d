"""Lists in answers: how many things they name, and whether a stated count fits them.

Takes an answer, gives the least and the largest number of items that its list can hold
("Simon and Garfunkel" is one or two). A list is read only where every item is a name, or
every item is a plain noun: a clause, an apposition, "others" or "the twins" make it unread.

Left out deliberately: lists without a colon or "namely" in longer answers.
"""

import re

from decomposerl.rewards.consistency_facts.values import CARDINALS, UNITS, Number, read_values
from decomposerl.rewards.consistency_facts.words import word_set

_OPENS = re.compile(r":\s+|,?\s+namely,?:?\s+")
_END = re.compile(r"(?<=[\w)\"'”’])[.!?](?:\s+(?=[A-Z\"“])|\s*$)")
_BRACKETS = re.compile(r"\s*\([^()]*\)")
_COMMAS = re.compile(r"\s*[,;\n]\s*")
_AND = re.compile(r"\s+(?:and|&)\s+", re.IGNORECASE)
_LEADING_AND = re.compile(r"\A(?:and|&)\s+", re.IGNORECASE)
_BULLET = re.compile(r"\A(?:[-•*·]|\d+[.)])\s+")
_PROPER = re.compile(
    r"[\"'“‘]?(?:(?:[^\W\d_a-z][\w.'’-]*|de|da|del|di|du|la|le|van|von|der|den|of|the|bin|al|y)"
    r"(?:\s|$))+"
)
_PLAIN = re.compile(r"(?:an?\s+)?[a-z-]+(?:\s[a-z-]+){0,2}")
_NO_ITEM = word_set(
    """the etc other others more both all none rest several some many few each every two pair
    twins he she it they who which while but so with as is was are were has had not no
    another"""
)
_ITEM_WORDS = 7
_MOST_ITEMS = 200
_FEWEST = 2  # things that make a list


def listed(text: str) -> tuple[int, int] | None:
    """The least and the largest number of items of a list; None where it is not read.

    At least two items; time is linear in the length of the text.
    """
    text = _BRACKETS.sub("", _tidy(text)).strip().rstrip(".!?").strip("\"'“”")
    parts = [_BULLET.sub("", part, count=1) for part in _COMMAS.split(text, maxsplit=_MOST_ITEMS)]
    parts = [part for part in parts if part]
    if not parts or len(parts) > _MOST_ITEMS or len(text) > 60 * _MOST_ITEMS:
        return None
    closed = _LEADING_AND.match(parts[-1]) is not None
    parts[-1] = _LEADING_AND.sub("", parts[-1], count=1)
    halves = [_AND.split(part) for part in parts]
    items = [item for half in halves for item in half]
    if len(items) < _FEWEST or not _alike(items):
        return None
    ends = 0 if closed or len(halves[-1]) == 1 else 1  # "A, B and C": that "and" does separate
    return len(parts) + ends, len(items)


def miscounts_itself(answer: str) -> bool:
    """Whether the answer states a number of things and then lists another number of them.

    Too few is sure; too many only where no two items could be one ("Paris, France").
    """
    if ":" not in answer and "namely" not in answer:
        return False
    answer = _tidy(answer)
    opening = _OPENS.search(answer)
    if opening is None:
        return False
    before = _END.split(answer[: opening.start()])[-1]
    rest = _END.split(answer[opening.end() :], maxsplit=1)[0]
    stated = _stated(before)
    held = listed(rest) if stated is not None else None
    if stated is None or held is None:
        return False
    least, largest = held
    if stated > largest:
        return not _plural(rest)
    return stated < least and 2 * stated not in held and _whole(rest)


def _tidy(text: str) -> str:
    """Lines that are not blank, with single spaces; the patterns here rely on both."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _stated(before: str) -> int | None:
    """The count that a clause gives of things that can be listed; None if not just one."""
    said = read_values(before)
    counts = [n for n in said.numbers if not n.base and not n.year]
    if not said.definite or len(counts) != 1 or not _counts(before, counts[0]):
        return None
    value = counts[0].quantity.low
    return int(value) if value in range(_FEWEST, _MOST_ITEMS + 1) else None


_COUNTED_AFTER = word_set(
    """lists list listed names named gives mentions includes contains has have had are were is
    was the all with comprises shows there of only exactly these those its his her their"""
)
_VERBS = word_set("are were come came of have had")


def _counts(before: str, number: Number) -> bool:
    """Whether a number counts things: "lists five golfers", "three of them", "three are"."""
    if number.quantity.unit or not number.after or number.after[0] in UNITS:
        return False
    previous = re.findall(r"[\w']+|[,.]", before[: number.start])[-1:]
    opens = not previous or previous[0] == "," or previous[0].lower() in _COUNTED_AFTER
    following = re.findall(r"[\w'’-]+", before[number.end :])[:4]
    many = [w for w in following if w in {"people", "men", "women", "children"} or w.endswith("s")]
    units = any(stem in UNITS for stem in number.after)
    return opens and not units and (bool(many) or following[0] in _VERBS)


def _alike(items: list[str]) -> bool:
    """Whether all items are names, or all plain nouns."""
    for item in items:
        words = re.findall(r"[\w'’-]+", item.lower())
        if not words or len(words) > _ITEM_WORDS or words[0] in _NO_ITEM or words[-1] in _NO_ITEM:
            return False
        if any(word in CARDINALS or word in {"or", "other", "others"} for word in words):
            return False
    proper = [_PROPER.fullmatch(item) is not None and item[:1] != "o" for item in items]
    return all(proper) or all(_PLAIN.fullmatch(item) for item in items)


def _plural(text: str) -> bool:
    """Whether plain nouns of the list can each mean several things."""
    return text[:1].islower() and re.search(r"[^s\W]s\b", text) is not None


def _whole(text: str) -> bool:
    """Whether no comma can stand before an apposition: plain nouns, or names of several words."""
    items = [item for part in _COMMAS.split(text.rstrip(".!?")) for item in _AND.split(part)]
    items = [_LEADING_AND.sub("", item) for item in items if item]
    return text[:1].islower() or all(" " in item for item in items)
