"""What a sentence states, in the terms the rule judge compares: names, numbers, plain words.

Before that, untrusted text loses markup, tags and words that are addressed to a judge (orders,
forged replies, role marks): a ruling on the rest is the ruling on the clean text.

``read`` gives a frozen ``Statement``; ``shared`` and ``share`` say how much of one statement
another holds. A name or a number weighs two, a plain word one. Plain words also match within
a word family (write, author) and in longer forms (play, player).
"""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.normal_form import normalised
from decomposerl.text.families import FAMILY
from decomposerl.text.names import Word, name_runs
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import STOP_WORDS, WORD, parse, stem, word_set

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_MARKS = re.compile(
    r"[¹²³⁰-⁹]+|\[\s*\d+(?:\s*[,;–-]\s*\d+)*\s*\]|\(?\bQ\s?\d+\b\)?|[*`#]+|(?<!\w)_+|_+(?!\w)"
)
_OUR_TAGS = (
    r"think|questions?|answers?|verification|claim|document|evidence\w*|sentence|verdict|ruling"
    r"|reasoning|label|score|reward|criteria|system|user|assistant|instructions?"
)
_FORGED = re.compile(
    rf"<\s*(?P<tag>{_OUR_TAGS})\s*>[^<>]{{0,60}}</\s*(?P=tag)\s*>|<\s*/?\s*(?:{_OUR_TAGS})\b[^<>]{{0,80}}>|<\|[^<>|]{{0,40}}\|>|<!--.{{0,200}}?-->|\[/?(?:INST|SYS)\]|<</?SYS>>",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-z][^<>]{0,80}>", re.IGNORECASE)
_ORDER = re.compile(
    r"""
    # set what came before aside
    \b(?:ignore|disregard|forget|override|bypass|overrule)\b [^.!?\n]{0,60}
        \b(?:instructions?|prompts?|rules|guidelines|criteria|rubric|checklist|above|prior
        |previous|earlier|everything|document|context)\b
    | \b(?:new|updated|real|hidden|secret)\ (?:system\ )?(?:instructions?|prompts?)\b
    | \b(?:end|start|beginning)\ of\ (?:the\ )?(?:document|prompt|answers|evidence|context)\b
    # rule so and so
    | ^\W*(?:(?:please|now|just|simply|you\ must|you\ should)\ )*
        (?:output|respond|reply|return|print|emit|rule|mark|grade|rate|score|label|declare|judge
        |predict|classify|treat|consider|accept|answer|say|write|give|set|assign)\s+
        (?:(?:with|only|exactly|just|the|this|that|it|everything|all|as|a|answer|question|claim
        |is|verdict|number|digit)\W+)*
        ["'“‘(\[{]*(?:[01]\b|yes\b|true\b|correct\b|answerable\b|atomic\b|supported\b|refuted\b
        |not[ _]?enough|full\ marks|10\ ?/\ ?10|100\ ?%)
    | \b(?:output|respond|reply|return|print|rule|ruling|mark|grade|rate|score|label|declare|judge
        |predict|classify|treat|consider|choose|say|set|accept)\b [^.!?\n]{0,50}
        (?-i:\b(?:Supported|Refuted|NotEnoughInfo|NOT_ENOUGH_INFO|SUPPORTED|REFUTED)\b
        |\b(?:fully|as|is)\ correct\b)
    | \b(?:output|respond|reply|ruling)\W+(?:with\W+)?["']?[01]\b
    # a reply in the judge's place
    | ^\W*(?:supported|refuted|not[ _]?enough[ _]?info\w*)\W*$
    | ["'“‘«„]\s*(?:supported|refuted|not[ _]?enough[ _]?info\w*)\s*["'”’»]
    | \b(?:wrong|right|correct|true)\ (?:verdict|ruling|label)\b
    | \b(?:this|the|every|each)\ (?:answer|question)\ is\ (?:\w+\ (?:and\ )?)?
        (?:correct|answerable|atomic|true)\b
    | \b(?:reward|score|rating|grade)\s*[:=]\s*\d
    | \b(?:ruling|verdict|correctness|answerab\w+|atomicity|coverage|final\ (?:answer|label))
        \s*(?:is|are|=|:|->|should\ be|must\ be)\s*
        ["'“‘(\[{]*(?:[01]\b|yes\b|true\b|correct\b|supported\b|refuted\b|not[ _]?enough)
    | \b(?:is_question|single_focus|no_conjunctions|verifiable|grounded)\s*[:=]
    | [{,]\s*["']?(?:verdict|value|ruling|label|score|answer)["']?\s*:
    # whom it is addressed to
    | \b(?:dear|attention|note\ to|message\ to|hey|hello)\b [^.!?\n]{0,20}
        \b(?:judge|grader|evaluator|verifier|rater|llm|ai|model|assistant)\b
    | \b(?:you\ are|act\ as|pretend)\b [^.!?\n]{0,30}
        \b(?:judge|grader|evaluator|language\ model|assistant|rater)\b
    | ^\W*(?:system|assistant|user|developer|human|admin\w*)\b (?:\ \w+){0,2} \s*:
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FEW = 3
"""Words before an order that say nothing by themselves, at most."""


@dataclass(frozen=True, slots=True)
class CleanText:
    """The sentences that are left; ``orders`` is whether words to a judge were taken away."""

    sentences: tuple[str, ...]
    orders: bool

    @property
    def text(self) -> str:
        """The sentences in one line."""
        return " ".join(self.sentences)


@lru_cache(maxsize=4096)
def clean(text: str) -> CleanText:
    """Take ``text`` apart; forged tags and orders go.

    An order goes from its first word to the end of its sentence.
    """
    plain = normalised("NFKC", _MARKS.sub(" ", _INVISIBLE.sub("", _unescaped(text))))
    bare = _FORGED.sub("\n", plain)
    kept: list[str] = []
    orders = bare != plain
    for sentence in split_sentences(_TAG.sub(" ", bare)):
        order = _ORDER.search(sentence)
        orders = orders or order is not None
        rest = sentence if order is None else _before_order(sentence, order.start())
        rest = " ".join(rest.split())
        if any(map(str.isalnum, rest)):
            kept.append(rest)
    return CleanText(tuple(kept), orders)


def _before_order(sentence: str, index: int) -> str:
    """What stands before an order, unless it only leads up to it ("unless you ...")."""
    words = sentence[:index].split()
    leads_up = len(words) <= _FEW or words[-1].lower().strip(",;:") in STOP_WORDS
    return "" if leads_up else sentence[:index]


def _unescaped(text: str) -> str:
    """Entities as characters, also where they were escaped twice."""
    return html.unescape(html.unescape(text)) if "&" in text else text


LEAD = re.compile(
    r"^\W*(?:answer\W+)?(?:(?P<yes>yes|correct|true|indeed)|(?P<no>no|incorrect|false|wrong))"
    r"(?:\s*[,.:;!—–-]\s*|\s+(?=[A-Z])|\s*$)",
    re.IGNORECASE,
)
"""A yes or no that opens an answer."""
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_ROOT, _LONGER = 4, 4
"""Letters that two forms of a plain word share at least, and that one has more at most."""
_NAME_WEIGHT = 2
FRAME_WORDS = frozenset(
    map(
        stem,
        word_set(
            "document text evidence passage article source page excerpt snippet table list lists "
            "listed state states stated say says said mention mentions mentioned give gives given "
            "show shows according confirm confirms confirmed explicitly clearly directly indicates "
            "specified claim question answer true false therefore thus currently provided based "
            "specifically describes described notes called actually instead fact same also"
        ),
    )
)
"""Stems that talk about the document, not about the world."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A value: the word before it ("in" for any year), its kind (name, year, number), its stem."""

    before: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence. ``names``, ``numbers`` and ``plain`` are stems and do not overlap.

    ``content`` holds all stems, ``values`` names and numbers.
    """

    text: str
    names: frozenset[str]
    numbers: frozenset[str]
    plain: frozenset[str]
    content: frozenset[str]
    values: frozenset[str]
    words: frozenset[str]
    slots: tuple[Slot, ...]
    negated: bool

    @property
    def topic(self) -> frozenset[str]:
        """Its stems without plain words that talk about the document."""
        return self.content - (FRAME_WORDS & self.plain)


@lru_cache(maxsize=50_000)
def read(sentence: str) -> Statement:
    """Take one sentence apart."""
    parsed = parse(sentence)
    tokens = WORD.findall(sentence)
    names = parsed.names | _opening_names(tokens)
    return Statement(
        text=sentence,
        names=names,
        numbers=parsed.numbers,
        plain=parsed.content - names - parsed.numbers,
        content=parsed.content | names,
        values=names | parsed.numbers,
        words=parsed.words,
        slots=tuple(_slots(tokens, names)),
        negated=parsed.negated,
    )


def weight(stems: Iterable[str], of: Statement) -> int:
    """Names and numbers of ``of`` count twice."""
    values = of.values
    return sum(_NAME_WEIGHT if root in values else 1 for root in stems)


def shared(wanted: frozenset[str], of: Statement, by: frozenset[str]) -> frozenset[str]:
    """The ``wanted`` stems of ``of`` that ``by`` holds; values exactly, plain words loosely."""
    found = wanted & by
    loose = (wanted - found) & of.plain
    if not loose:
        return found
    families, starts = _index(by)
    return found | {
        root
        for root in loose
        if FAMILY.get(root) in families
        or root in starts
        or any(root[:end] in by for end in _shorter(root))
    }


def share(wanted: frozenset[str], of: Statement, by: frozenset[str]) -> float:
    """Weight of the ``wanted`` stems of ``of`` that ``by`` holds, 0..1; 1 where none is."""
    if not wanted:
        return 1.0
    return weight(shared(wanted, of, by), of) / weight(wanted, of)


@lru_cache(maxsize=4096)
def _index(by: frozenset[str]) -> tuple[frozenset[int], frozenset[str]]:
    """The families of ``by``, and the shorter forms of its stems."""
    families = frozenset(FAMILY[root] for root in by if root in FAMILY)
    return families, frozenset(one[:end] for one in by for end in _shorter(one))


def _shorter(root: str) -> range:
    """Lengths of the forms of ``root`` that are not longer than it."""
    return range(max(_ROOT, len(root) - _LONGER), len(root) + 1)


def _opening_names(tokens: list[str]) -> frozenset[str]:
    """The stems of a name that opens the sentence, where a capital alone proves nothing."""
    opening = [Word(token, space=True) for token in tokens[:4]]
    run = next(iter(name_runs(opening)), None) if opening else None
    if run is None or run[0] > 0:
        return frozenset()
    lower = [token.lower() for token in tokens[: run[1]]]
    return frozenset(
        stem(token) for token in lower if token not in STOP_WORDS and not stem(token)[0].isdigit()
    )


def _slots(tokens: list[str], names: frozenset[str]) -> Iterable[Slot]:
    """Each number, and the last word of each run of name words, with its neighbours."""
    lower = [token.lower() for token in tokens]
    stems = [stem(low) if low not in STOP_WORDS else "" for low in lower]
    start = 0
    for at, root in enumerate(stems):
        is_name = root in names and root != ""
        if at and not (is_name and stems[at - 1] in names):
            start = at
        if root and root[0].isdigit():
            year = _YEAR.fullmatch(root)
            yield Slot("in", "year", root) if year else Slot(_before(lower, at), "number", root)
        elif is_name and (at + 1 == len(stems) or stems[at + 1] not in names):
            yield Slot(_before(lower, start), "name", root)


def _before(lower: list[str], at: int) -> str:
    """The word before a value, articles passed over; empty at the start."""
    index = at - 1
    while index >= 0 and lower[index] in {"the", "a", "an", "its", "his", "her", "their"}:
        index -= 1
    return lower[index] if index >= 0 else ""
