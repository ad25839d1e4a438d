r"""Escaping of untrusted text, so that it cannot forge the structure of a prompt.

In claims, evidence and policy output no prompt tag can open after escaping. Ordinary text stays
unchanged: ``p < 0.05``, ``<5 mg``, a table in HTML.

A prompt tag is an opening bracket, any slashes, one of ``NAMES``, and then no Latin letter. Every
spelling counts that a model could read as one: letter case, white space, attributes, accents,
invisible characters, look-alike brackets and letters, HTML entities for the bracket. Tokens of
chat templates (``<|im_end|>``) count too, since servers interpret them in any text. The bracket is
escaped by one level: ``<`` becomes ``&lt;``, and ``&lt;`` becomes ``&amp;lt;``, so different texts
stay different, and escaping twice differs from escaping once.

Not covered: spellings that only a decoder reads (``%3C``, ``\u003c``, base64), template tokens in
square brackets (``[INST]``), and Qwen's soft switches (``/think``, ``/no_think``), which change
how a model writes but not the structure of the prompt.
"""

import re
import unicodedata
from functools import cache

NAMES = (
    *("think", "thinking", "question", "questions", "answer", "answers", "answer_given"),
    *("verification", "verdict", "document", "evidence", "evidence_document", "claim"),
    "sentence",
)
"""The tags of the trace, of all prompts, and of the paper's prompts."""

_BRACKETS = "<＜﹤‹〈〈⟨❬❮❰⧼˂ᐸ"
_SLASHES = r"/\\⁄∕／⧸╱"
# Each letter of the names, then its look-alikes in other alphabets.
_ALIKE = (
    *("aаɑαᴀ", "cсϲᴄ", "dԁᴅ", "eеεҽᴇ", "fꜰſ", "gɡɢ", "hһнηʜ", "iіιıɪ", "kкκᴋ", "lӏιʟ|1", "mмμᴍ"),
    *("nոηνпɴ", "oоοσᴏ0", "qԛգ", "rгʀ", "sѕꜱ$5", "tтτᴛ", "uυսцᴜ", "vνѵᴠ", "wԝѡωᴡ"),
)
# Unicode blocks that repeat the Latin letters with accents or strokes, or in other shapes.
_SHAPES = (
    *((0xAA, 0x2E3), (0x1D2C, 0x1DBF), (0x1E00, 0x1EFF), (0x2070, 0x24E9)),
    *((0x2C60, 0x2C7F), (0xA720, 0xA7FF), (0x1F110, 0x1F189)),
    *((0xFF21, 0xFF5A), (0x107A5, 0x107A5), (0x1D400, 0x1D6A3), (0x1DF00, 0x1DF2A)),
)
_LATIN = re.compile(r"LATIN (?:CAPITAL|SMALL) LETTER ([A-Z])(?: WITH |\Z)")
_JOINED = {"fi": "ﬁ", "st": "ﬅﬆ"}
_UNSEEN = (
    "\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Case-sensitive: U+0345 case-folds to iota, and the gap would swallow the letter.
_GAP = rf"(?-i:[\s{_UNSEEN}])*+"
_CONTROL = (
    r"[|｜]|/?(?:s|bos|eos|pad|unk|mask)>|(?:start|end)_of_turn>"
    r"|/?tool_(?:call|response)>|</?SYS>>"
)


def look_alikes() -> dict[str, str]:
    """Each letter of the names with its look-alikes, itself first, in lower case."""
    alike = {letters[0]: letters for letters in _ALIKE}
    for first, last in _SHAPES:
        for character in map(chr, range(first, last + 1)):
            plain = _plain(character)
            if plain in alike:
                alike[plain] += character
    return alike


def _plain(character: str) -> str:
    """The letter that a character is a shape of, by its decomposition or else by its name."""
    named = _LATIN.search(unicodedata.name(character, ""))
    form = named[1] if named else unicodedata.normalize("NFKD", character)
    return "".join(filter(str.isalpha, form)).lower()


def _spellings() -> list[str]:
    """A pattern per name: its letters in all shapes, and ligatures where Unicode has them."""
    classes = {letter: f"{_GAP}[{re.escape(alike)}]" for letter, alike in look_alikes().items()}
    names = ["".join(classes.get(letter, _GAP + letter) for letter in name) for name in NAMES]
    for pair, joined in _JOINED.items():
        apart = "".join(classes[letter] for letter in pair)
        names = [name.replace(apart, f"(?:{apart}|{_GAP}[{joined}])") for name in names]
    return names


@cache  # built at first use, not at import: about a tenth of a second
def _pattern() -> re.Pattern[str]:
    """An opening bracket in any spelling, followed by a prompt tag."""
    points = "|".join(str(ord(bracket)) for bracket in _BRACKETS)
    hexes = "|".join(f"{ord(bracket):x}" for bracket in _BRACKETS)
    entity = rf"&(?:amp;)*+(?:lt|#0*+(?:{points})|#x0*+(?:{hexes}));?+"
    tag = rf"(?:{_GAP}[{_SLASHES}])*+(?:{'|'.join(_spellings())})(?![a-z])"
    return re.compile(rf"(?:[{_BRACKETS}]|{entity})(?={tag}|{_CONTROL})", re.IGNORECASE)


def escaped(text: str) -> str:
    """``text`` in which no prompt tag and no token of a chat template opens.

    Everything else stays unchanged. One pass, linear in the length. Different texts stay
    different: the bracket of each tag is escaped by exactly one level.
    """
    return _pattern().sub(_deeper, text)


def _deeper(bracket: re.Match[str]) -> str:
    written = bracket[0]
    if written.startswith("&"):
        return f"&amp;{written[1:]}"
    return "&lt;" if written == "<" else f"&#{ord(written)};"
