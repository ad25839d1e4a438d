"""Texts that try to forge the structure of a prompt, a reply or a trace, from ``injections.json``.

``INJECTIONS`` are the texts by the way each takes. They are fit for any place that untrusted text
goes: a claim, evidence, a question, an answer. Left out deliberately: what must hold of them; each
suite states its own laws.
"""

import json
from dataclasses import dataclass

from project import SUPPORT

CLOSED = {"backwards", "entity", "words", "json"}


@dataclass(frozen=True)
class Injection:
    """``opens``: unescaped, a generous reader finds a tag of ours or a template token in it."""

    name: str
    text: str
    opens: bool


INJECTIONS = tuple(
    Injection(f"{kind} {number}", text, kind not in CLOSED)
    for kind, texts in json.loads((SUPPORT / "injections.json").read_text("utf-8")).items()
    for number, text in enumerate(texts, start=1)
)
