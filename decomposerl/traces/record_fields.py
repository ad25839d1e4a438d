"""The fields of one line of traces: each read, or refused with a reason.

Takes the values of a JSON object, gives texts, numbers and labels; what cannot be read stands
in ``bad``. Sizes have limits far above any rollout (32,000 tokens are some 160 kB), so that
no line holds up the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from decomposerl.printable import printable
from decomposerl.schemas import LABELS, WRITTEN, Verdict

FIELDS = (
    "claim", "evidence", "trace", "label", "n_star", "questions", "group", "rollout", "truncated",
)  # fmt: skip
"""Every field that is read."""
MOST_BYTES = {"claim": 16_000, "evidence": 2_000_000, "trace": 256_000}
"""The longest text of a field, in bytes of UTF-8."""
MOST_QUESTIONS = 1_000
"""Questions of a trace; n of them take 4n + 1 rulings."""
MOST_READ = 200_000_000
"""Questions of a trace times bytes of its evidence, in which each of them is looked up."""
_QUESTION = "<question>"
_LARGEST = 1_000_000
_LONGEST = 80


@dataclass(slots=True)
class Fields:
    """The fields of one line; a value that cannot be read is None and a problem.

    Without ``trace_limits`` a trace may have any size, as a rollout of a trainer. ``labels`` are
    those that a claim may have.
    """

    values: Mapping[str, object]
    trace_limits: bool = True
    labels: tuple[Verdict, ...] = LABELS
    bad: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, name: str, reason: str) -> None:
        """Note what is wrong with a field."""
        self.bad.append((name, reason))

    def text(self, name: str, *, blank: bool = False) -> str:
        """A text that must be there; ``blank`` allows an empty one."""
        value = self.values.get(name)
        if value is None:
            self.fail(name, "is missing" if name not in self.values else "is null")
        elif not isinstance(value, str):
            self.fail(name, f"{kind_of(value)} instead of a text")
        elif not (blank or value.strip()):
            self.fail(name, "is blank")
        else:
            return self._within(name, self._storable(name, value))
        return ""

    def name(self, name: str) -> str:
        """A text that must be there, or a whole number in place of one."""
        value = self.values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(name)

    def texts(self, name: str) -> list[str]:
        """A list of texts, blank ones left out; empty where there is none."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(name, f"{kind_of(value)} instead of a list of texts")
            return []
        if other := [part for part in value if not isinstance(part, str)]:
            self.fail(name, f"{kind_of(other[0])} in a list of texts")
            return []
        return [self._storable(name, part) for part in value if part.strip()]

    def evidence(self) -> str:
        """One text, or passages joined with line breaks."""
        if not isinstance(self.values.get("evidence"), list):
            return self.text("evidence")
        before = len(self.bad)
        passages = self.texts("evidence")
        if not passages and len(self.bad) == before:
            self.fail("evidence", "holds no passage with text")
        return self._within("evidence", "\n".join(passages))

    def trace(self, evidence: str) -> str:
        """The trace; it may be blank, and what it asks of ``evidence`` has a limit."""
        text = self.text("trace", blank=True)
        asked, size = text.count(_QUESTION), len(evidence.encode("utf-8", "replace"))
        if self.trace_limits and asked * size > MOST_READ:
            most = f"at most {MOST_READ // size:,} are scored"
            self.fail("trace", f"asks {asked:,} questions of {size:,} bytes of evidence; {most}")
        return text

    def number(self, name: str, least: int) -> int | None:
        """A whole number from ``least`` on, or None where there is none."""
        value = self.values.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # a column with nulls makes floats of whole numbers
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(name, f"{kind_of(value)} instead of a whole number")
        elif not least <= value <= _LARGEST:
            self.fail(name, f"{shown_name(str(value))} is not within {least} to {_LARGEST}")
        else:
            return value
        return None

    def label(self) -> Verdict | None:
        """The label, or None where there is none."""
        value = self.values.get("label")
        if value is None:
            return None
        word = value.strip().casefold() if isinstance(value, str) else None
        for label in self.labels:
            if word in {label.casefold(), WRITTEN[label].casefold()}:
                return label
        *names, last = (WRITTEN[label] for label in self.labels)
        self.fail("label", f"{_shown(value)} is neither {', '.join(names)} nor {last}")
        return None

    def truncated(self) -> bool:
        """Whether the token budget ended before the trace; not where nothing is said."""
        value = self.values.get("truncated")
        if value is not None and not isinstance(value, bool):
            self.fail("truncated", f"{kind_of(value)} instead of true or false")
        return value is True

    def n_star(self) -> int | None:
        """The given number, else the number of different silver questions."""
        given = self.number("n_star", least=1)
        asked = len({text.strip() for text in self.texts("questions")}) or None
        if given is not None and asked is not None and given != asked:
            self.fail("n_star", f"{given}, but there are {asked} different questions")
        return asked if given is None else given

    def _within(self, name: str, text: str) -> str:
        """``text``, unless it is longer than any real one."""
        if name == "trace" and not self.trace_limits:
            return text
        most, size = MOST_BYTES.get(name), len(text.encode("utf-8", "replace"))
        if most is not None and size > most:
            self.fail(name, f"is {size:,} bytes long; at most {most:,} are scored")
        elif name == "trace" and (asked := text.count(_QUESTION)) > MOST_QUESTIONS:
            self.fail(name, f"holds {asked:,} questions; at most {MOST_QUESTIONS:,} are scored")
        return text

    def _storable(self, name: str, text: str) -> str:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            self.fail(name, "holds half of a surrogate pair, which is no character")
        return text


_KINDS = {
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    return _KINDS[type(value)]


def shown_name(text: str) -> str:
    """A field's name as it may be shown and stored, at most ``_LONGEST`` characters."""
    return printable(text.encode("utf-8", "replace").decode("utf-8")[:_LONGEST], keep="")


def _shown(value: object) -> str:
    return f"'{shown_name(value)}'" if isinstance(value, str) else kind_of(value)
