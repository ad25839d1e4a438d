"""What can happen to the text of a trace: forged structure, orders to the judge, damage.

Takes the text of a whole trace, gives a text. Injections stand in answers and in questions;
breaks violate one condition of the format each.

Left out deliberately: forged cycles. A further question with its answer, whoever closed the
tags, is a further question.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

from decomposerl.traces.trace import Cycle

INJECTIONS: tuple[str, ...] = tuple(
    json.loads(Path(__file__).with_name("injections.json").read_text("utf-8"))
)
"""Strings that try to speak to the judge, or to be structure."""
_PLACES = 3  # one place in three is a question
_OWN_TAG = re.compile(r"</?(?:think|question|answer|verification)>")


def injected(text: str, cycle: Cycle, turn: int) -> str:
    """``text`` with an injection in ``cycle``, at the end of its answer or of its question.

    Turns go through all strings, and at each further round put a string elsewhere. A string
    with tags of traces stands in an answer: in a question it would make away with the cycle.
    """
    rounds, place = divmod(turn, len(INJECTIONS))
    words = INJECTIONS[place]
    if (place + rounds) % _PLACES == 0 and not _OWN_TAG.search(words):
        asked = cycle.question.removesuffix("?")
        return text.replace(f"{asked}?", f"{asked} {words}?", 1)
    return text.replace(cycle.answer, f"{cycle.answer} {words}", 1)


def broken(text: str, turn: int) -> str:
    """``text`` with one condition of the format violated."""
    return _BREAKS[turn % len(_BREAKS)](text)


def truncated(text: str) -> str:
    """``text`` as a token budget cuts it: in the middle of its last answer."""
    start, end = text.rindex("<answer>"), text.rindex("</answer>")
    return text[: (start + end) // 2].rstrip()


def _before_verdict(text: str) -> str:
    return text[: text.rindex("<verification>")]


def _without_last(text: str, tag: str) -> str:
    start, end = text.rindex(f"<{tag}>"), text.rindex(f"</{tag}>") + len(f"</{tag}>")
    return text[:start].rstrip() + text[end:]


_BREAKS: tuple[Callable[[str], str], ...] = (
    lambda text: _before_verdict(text).rstrip(),
    lambda text: text.replace("</answer>", "", 1),
    lambda text: f"{_before_verdict(text)}<verification>Partly supported</verification>",
    lambda text: f"{text}\nI hope this settles the claim.",
    lambda text: _without_last(text, "answer"),
    lambda text: _without_last(text, "think"),
    lambda text: text[text.index("</think>") + len("</think>") :].lstrip(),
    lambda text: text.replace("<question>", "<Question >", 1),
)
