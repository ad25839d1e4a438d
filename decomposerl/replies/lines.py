"""The lines of a reply, without what models add around them.

Thinking up to the last ``</think>`` is skipped; thinking that is not closed leaves nothing.
Lines of a code fence, a closing token of a chat template, ``**``, and the marks of a heading or a
quotation before a line are dropped.
"""

import re

_END_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*\Z")
_BEFORE_LINE = re.compile(r"\A(?:#{1,6}\s+|>\s?)+")
_MARKS = " \t*_`"
_ENDS = _MARKS + "\"'“”‘’„«»"
_QUOTED = re.compile('["“„«]([^"“”„«»]*)["”“»]')
_BRACKETED = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}|<([a-z]+)>([^<>]*)</\4>")


def one_line(text: str) -> str:
    """The text with single spaces and no line break."""
    return " ".join(text.split())


def spoken(text: str) -> str:
    """A reply without its thinking and its closing token; empty where thinking is not closed."""
    after = text.rpartition("</think>")[2]
    return "" if "<think>" in after else _END_TOKEN.sub("", after)


def lines_of(text: str) -> list[str]:
    """The trimmed lines of a reply that are not blank, without markup around them."""
    lines = (line.strip() for line in spoken(text).splitlines())
    kept = (line for line in lines if not line.startswith("```"))
    plain = (_BEFORE_LINE.sub("", line.replace("**", "")).strip() for line in kept)
    return [line for line in plain if line]


def whole_lines(text: str, *, truncated: bool) -> str:
    """A reply's text without the half line that a token limit leaves at its end."""
    return text.rpartition("\n")[0] if truncated else text


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
