"""Untrusted text for the rule judge: what it says, without what it tells the judge to do.

Gives the sentences of a text without markup, tags and words that are addressed to a judge
(orders, forged replies, role marks), and whether there were any such words. A ruling on the
rest is the ruling on the clean text.
"""

import html
import re
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.normal_form import normalised
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import STOP_WORDS

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
        rest = sentence if order is None else _before(sentence, order.start())
        rest = " ".join(rest.split())
        if any(map(str.isalnum, rest)):
            kept.append(rest)
    return CleanText(tuple(kept), orders)


def _before(sentence: str, index: int) -> str:
    """What stands before an order, unless it only leads up to it ("unless you ...")."""
    words = sentence[:index].split()
    leads_up = len(words) <= _FEW or words[-1].lower().strip(",;:") in STOP_WORDS
    return "" if leads_up else sentence[:index]


def _unescaped(text: str) -> str:
    """Entities as characters, also where they were escaped twice."""
    return html.unescape(html.unescape(text)) if "&" in text else text
