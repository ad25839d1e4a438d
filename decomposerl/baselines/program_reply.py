"""The program in a model's reply: alone, in a fence, or between other lines.

Of several fences, the one that holds a program counts; the parts of one program may stand in
several. Two different programs are none. Nothing is executed.
"""

import re
from itertools import chain

from decomposerl.baselines.program import Program
from decomposerl.baselines.program_parser import ProgramRejectedError, parse_program
from decomposerl.replies.lines import plain_text

_FENCED = re.compile(r"^[^\S\n]*```[\w-]*[^\S\n]*\n(.*?)^[^\S\n]*```", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^[^\S\n]*```[\w-]*[^\S\n]*$", re.MULTILINE)
_STATEMENT = re.compile(
    r"\s*(?P<mark>(?:[-*•]|\(?\d{1,2}[.)])\s+)?`?(?P<code>(?:[^\W\d]\w*\s*=\s*[^\W\d]\w*\s*\(|Predict\s*\("
    r"|return\s+(?:Predict\b|[^\W\d]\w*\s*\Z)).*?)`?\s*"
)
_DEFINED = re.compile(r"\s*def\s+\w+\(\s*\)\s*:\s*")


def read_program(reply: str) -> Program:
    """The program of a reply, without thinking, fences and the lines around it.

    Raises:
        ProgramRejectedError: the first fault of what stands there as a program.
    """
    text = plain_text(reply).replace("**", "")
    blocks = _FENCED.findall(text)
    found = [program for block in blocks if (program := _parsed(block)) is not None]
    if found and all(program == found[0] for program in found):
        return found[0]
    if found:
        raise ProgramRejectedError("syntax", 1, "two programs")
    if len(blocks) == 1:
        return parse_program(blocks[0])
    plain = _FENCE.sub("", text)
    whole = _parsed("\n".join(blocks) or plain)
    return whole if whole is not None else parse_program(_statements(plain))


def _parsed(text: str) -> Program | None:
    try:
        return parse_program(text)
    except ProgramRejectedError:
        return None


def _statements(text: str) -> str:
    """The lines from the first statement to the last one, without list marks; else the text."""
    lines = text.splitlines()
    places = [place for place, line in enumerate(lines) if _STATEMENT.fullmatch(line)]
    if not places:
        return text
    return "\n".join(chain.from_iterable(_code(line) for line in lines[places[0] : places[-1] + 1]))


def _code(line: str) -> list[str]:
    """A line of a program, without a list mark; none for prose that ends with a colon."""
    statement = _STATEMENT.fullmatch(line)
    if statement is not None:
        return [statement["code"]]
    return [] if _DEFINED.fullmatch(line) or line.rstrip().endswith(":") else [line]
