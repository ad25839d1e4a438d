"""Native evidence text to passages: sentences, table rows, wiki marks, treebank brackets.

A passage is the unit that the funnel counts (paper, "Rule-Based Filtering": evidence passages).
Nothing here knows a corpus. No model splits sentences: text that arrives unsplit is cut at white
space after a full stop, ``!`` or ``?``.
"""

import re
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, unescape

from decomposerl.claims.source import Pages
from decomposerl.kernels.unspaced import cut_unspaced

CELL_BAR = " | "

# Matching starts only at the beginning of a run of spaces: a long run takes linear time.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s++|(?<!\s)[^\S\n]*+\n\s*+")
# The page name of a link holds no bracket; the anchor may (phonetic spelling in "[...]").
# The last form is a link that its line does not close: kept as it is, never scanned twice.
_LINK = re.compile(r"\[\[([^\[\]|]*+)\|(.*?)\]\]|\[\[([^\[\]|]++)\]\]|(\[\[[^\[\]|]*+\|.*+)")
TREEBANK = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "-COLON-": ":",
}
"""The bracket codes of the Penn treebank, and FEVER's of the colon."""
_TREEBANK_MARK = re.compile("|".join(TREEBANK))


def sentence_passages(text: str) -> tuple[str, ...]:
    """The non-blank sentences of ``text``, cut after ``.``, ``!``, ``?`` and at line breaks.

    Chinese, Japanese and Thai are also cut where their own sentences end.
    """
    parts = (part.strip() for part in _SENTENCE_END.split(text))
    return tuple(cut_unspaced(part for part in parts if part))


def table_passages(
    caption: str | None, header: Sequence[object], rows: Sequence[Sequence[object]]
) -> tuple[str, ...]:
    """One passage each for the caption, the header and every row; cells joined by bars.

    A null cell is blank. A blank caption and a header without cells give no passage. A
    table without any text gives no passage at all.
    """
    lines = [caption.strip()] if caption and caption.strip() else []
    filled = [header, *rows] if header else rows
    lines += [CELL_BAR.join("" if cell is None else str(cell) for cell in row) for row in filled]
    return tuple(lines) if any(line.strip(" |") for line in lines) else ()


def without_links(text: str) -> str:
    """``[[Page|anchor]]`` becomes its anchor, ``[[Some_page]]`` its page name with spaces."""
    return _LINK.sub(_anchor, text)


def _anchor(link: re.Match[str]) -> str:
    _, anchor, name, unclosed = link.groups()
    return anchor if anchor is not None else unclosed or name.replace("_", " ")


def without_treebank(text: str) -> str:
    """Penn-treebank bracket codes (``-LRB-`` …) and FEVER's ``-COLON-`` as their characters."""
    return _TREEBANK_MARK.sub(lambda m: TREEBANK[m[0]], text)


def without_entities(title: str) -> str:
    """The characters of XML's entities: HotpotQA's dump writes ``&`` in titles as ``&amp;``."""
    return unescape(title, {"&quot;": '"'})


def with_entities(title: str) -> str:
    """The reverse."""
    return escape(title, {'"': "&quot;"})


def page_title(name: str) -> str:
    """A wiki page name as a reader writes it: brackets decoded, underscores as spaces."""
    return without_treebank(name).replace("_", " ").strip()


def page_passages(pages: Pages | None, titles: Iterable[str]) -> tuple[str, ...]:
    """The text of each page, or nothing: a claim may not follow from half of its pages."""
    if pages is None:
        return ()
    texts = [
        " ".join(part.strip() for part in pages.sentences(title) or () if part.strip())
        for title in titles
    ]
    return tuple(texts) if all(texts) else ()


def page_titles(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct titles of wiki pages, in order."""
    return tuple(dict.fromkeys(map(page_title, names)))
