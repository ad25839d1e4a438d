"""The lines of a reply, without what models add around them.

Thinking up to the last ``</think>`` is skipped; thinking that is not closed leaves nothing.
Lines of a code fence, a closing token of a chat template, a role before the reply, ``**``, the
marks of a heading or a quotation before a line, and signs such as a tick around it are dropped.
Hyphens and full-width punctuation become their plain forms, and JSON becomes lines.
"""

import re

from decomposerl.replies.json_lines import without_json

_END_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*\Z")
_BEFORE_LINE = re.compile(r"\A(?:#{1,6}\s+|>\s?)+")
# Hyphens, full-width punctuation and invisible characters, as keyboards would give them.
_PLAIN = (
    dict.fromkeys(map(ord, "\u2010\u2011"), "-")
    | dict(zip(map(ord, "：，｜．；！？（）"), ":,|.;!?()", strict=True))
    | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
)
SIGNS = re.compile("[\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f300-\U0001faff]")
"""Ticks, crosses and the like."""
_SIGNS = " \t\xa0" + "".join(map(chr, (*range(0x2600, 0x27C0), *range(0x2B00, 0x2C00), 0xFE0F)))
_SIGNS += "".join(map(chr, range(0x1F300, 0x1FB00)))
# The demonstrations show "Reply:" before a reply; a chat template may leave the role.
_ROLE = re.compile(r"\A\s*(?:reply|response|assistant)\s?:\s*", re.IGNORECASE)
# A model that goes on with another example repeats the tags of the prompt.
_NEXT_EXAMPLE = re.compile(r"(?<=\n)<(?:claim|evidence|document)>\s*$", re.MULTILINE)
_MARKS = " \t*_`"
_ENDS = _MARKS + "\"'“”‘’„«»"
_QUOTED = re.compile('["“„«]([^"“”„«»]*)["”“»]')
_BRACKETED = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}|<([a-z]+)>([^<>]*)</\4>")


def one_line(text: str) -> str:
    """The text with single spaces and no line break."""
    return " ".join(text.split())


def spoken(text: str) -> str:
    """A reply without its thinking and its closing token; empty where thinking is not closed."""
    after = text.rpartition("</think>")[2].translate(_PLAIN)
    return "" if "<think>" in after else _END_TOKEN.sub("", after)


def plain_text(text: str) -> str:
    """What a reply says, with JSON as lines and without the next example that a model goes on to.

    Linear in the length; never raises.
    """
    said = _ROLE.sub("", spoken(text), count=1)
    example = _NEXT_EXAMPLE.search(said)
    if example is not None and said[: example.start()].strip():
        said = said[: example.start()]
    return without_json(said)


def lines_of(text: str) -> list[str]:
    """The trimmed lines of a reply that are not blank, without markup around them."""
    lines = (line.strip() for line in plain_text(text).splitlines())
    kept = (line.replace("**", "") for line in lines if not line.startswith("```"))
    unsigned = (line.strip().strip(_SIGNS) for line in kept)
    plain = (_BEFORE_LINE.sub("", line).strip().strip(_SIGNS) for line in unsigned)
    return [line for line in plain if line]


def without_marks(line: str) -> str:
    """The line with single spaces, without marks or quotes around all of it."""
    plain = one_line(line).strip(_MARKS)
    quoted = _QUOTED.fullmatch(plain)
    return quoted[1].strip(_MARKS) if quoted else plain


def bare(text: str) -> str:
    """A word or line in lower case, without marks, quotes, a final stop or a pair of brackets."""
    inside = one_line(text).strip(_ENDS).rstrip(".!").strip(_ENDS)
    bracketed = _BRACKETED.fullmatch(inside)
    if bracketed is not None:
        inside = next(part for part in bracketed.group(1, 2, 3, 5) if part is not None)
        inside = inside.strip(_ENDS).rstrip(".!").strip(_ENDS)
    return inside.lower()
