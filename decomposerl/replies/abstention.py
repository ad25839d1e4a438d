"""Whether an answer says that the document does not tell (paper, section 3.2, joint reward).

An abstention goes by other rules than an answer: whether it is correct is not asked, and it pays
where the document cannot answer. A fact must not pass under that cover, so doubt goes one way:
every clause around "I don't know" has to be one of the phrases of ``abstention.toml``, which assert
nothing, or what the document has instead with such a phrase behind it ("it describes mills but
names no builder"). A denial about the world ("it is not found in Portugal") is a fact, so most need
the document.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from decomposerl.normal_form import normalised
from decomposerl.replies.languages import LANGUAGES
from decomposerl.replies.wordings import Wordings

MOST_WORDS = 80
"""An honest abstention is short; a longer text says something."""
SILENCE = Wordings("abstention")
_DOCUMENT = re.compile(SILENCE.text("DOC"))
_MARKS = dict.fromkeys(map(ord, "’‘ʼ`´′‛"), "'") | dict.fromkeys(map(ord, "“”„‟«»″"), '"')
_MARKUP = re.compile(
    r"</?(?:i|b|em|strong|u|p|br|q)\s?/?>|[*#>~]+|(?<!\w)_+|_+(?!\w)"
    r"|^[^\S\n]*(?:[-•·–—]|\d{1,2}[.)])[^\S\n]+",
    re.MULTILINE | re.IGNORECASE,
)
_STOP = re.compile(r"""[.!?]+(?=["')\]\s]|$)|(?<=[a-z]{3})[.!?]+(?=[a-z])""")
_ABBREVIATED = re.compile(r"(?:\b(?:dr|mrs?|ms|st|prof|vs|e\.g|i\.e)|(?<![^\W\d_])[^\W\d_])\Z")


def abstains(answer: str) -> bool:
    """Whether ``answer`` is empty, or says "I don't know" and then asserts nothing.

    "I don't know" or "I do not know" has to stand in it, in any letter case, apostrophe, quotes
    or markup. What stands before and after may say what is not known, that the document does
    not tell, or what it is about; a hedge before a fact ("I don't know exactly, but it says
    1857") makes an answer. "The document does not say", without the phrase, is an answer.
    Time is linear; never raises.
    """
    words = _plain(answer)
    if all(unicodedata.category(character)[0] in "PZC" for character in words):
        return True
    if len(words.split()) > MOST_WORDS:
        return False
    if LANGUAGES["unknowing"].fullmatch(words):
        return True
    phrase = SILENCE["opening"].match(words) or SILENCE["later"].search(words)
    if phrase is None or not _silent(words[: phrase.start()]):
        return False
    first, *others = _sentences(words[phrase.end() :])
    thing, *clauses = SILENCE["break"].split(first)
    run_on = thing.startswith(",") or SILENCE["thing"].match(thing) is None
    if (run_on or _has("tells", thing) or _has("turns", thing)) and not asserts_nothing(thing):
        return False
    return _all_silent(clauses) and all(map(_silent, others))


def asserts_nothing(clause: str) -> bool:
    """Whether ``clause`` (lower case, single spaces) is one of the phrases, or empty.

    Connecting words before it are passed over; one that tells what the document says, or turns a
    denial into a fact, is none.
    """
    said = _said(clause)
    report = SILENCE["tells"].match(said)
    silent = report and (report["none"] or report["only"])
    if _has("tells", said[report.end() :] if report and silent else said) or _has("turns", said):
        return False
    return SILENCE["phrases"].fullmatch(said) is not None


def _has(name: str, text: str) -> bool:
    """Whether the wording stands in ``text`` other than in what is asked."""
    return any(match["asked"] is None for match in SILENCE[name].finditer(text))


def _all_silent(clauses: Iterable[str]) -> bool:
    """Whether the clauses of one sentence assert nothing, each alone or with the next ones.

    A denial may leave its subject out where a clause before it has the document for one.
    """
    pending = about_document = False
    for said in filter(None, map(_said, clauses)):
        elided = f"the document {said.removeprefix('it ')}"
        if other := re.fullmatch(r"not\s(?:about\s)?([^\d\"]{1,80})", said):
            elided = f"the document does not discuss {other[1]}"
        denies = about_document and (other or SILENCE["elided"].match(said.removeprefix("it ")))
        without = SILENCE["without"].sub("", said)
        if (denies and asserts_nothing(elided)) or asserts_nothing(said):
            pending = pending and SILENCE["denial"].match(said) is None
        elif SILENCE["background"].fullmatch(without):
            pending = without == said
        else:
            return False
        about_document = about_document or _DOCUMENT.match(said) is not None
    return not pending


def _silent(text: str) -> bool:
    """Whether each sentence of ``text`` asserts nothing."""
    return all(_all_silent(SILENCE["break"].split(sentence)) for sentence in _sentences(text))


def _said(clause: str) -> str:
    """``clause`` without connecting words before it and marks around it."""
    return SILENCE["lead"].sub("", clause, count=1).rstrip(" ,.\"'[]-")


def _plain(answer: str) -> str:
    """Lower case, straight apostrophes and quotes, single spaces, no markup."""
    text = normalised("NFKC", answer.translate(_MARKS)).translate(_MARKS)
    if not text.isascii():  # ASCII has no format characters
        text = "".join(character for character in text if unicodedata.category(character) != "Cf")
    lines = (" ".join(line.split()) for line in _MARKUP.sub("", text).lower().splitlines())
    return "\n".join(line for line in lines if line)


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for stop in _STOP.finditer(text):
        if not _ABBREVIATED.search(text, max(start, stop.start() - 8), stop.start()):
            yield text[start : stop.start()]
            start = stop.end()
    yield text[start:]
