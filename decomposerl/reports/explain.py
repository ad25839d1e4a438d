"""One claim's way through the funnel: each stage with its numbers, and where the claim ended.

Takes ``ClaimRows`` and gives a ``ClaimJourney``: data for ``--json`` and lines for a terminal.
Claims are untrusted text and are shown on one line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from decomposerl.reports.attrition import STAGES
from decomposerl.reports.tables import count, one_line

Row = Mapping[str, object]
Where = Literal["source", "benchmark", "unknown"]
Outcome = Literal["passed", "unpicked", "dropped"]
_MARKS: dict[Outcome, str] = {"passed": "✓", "unpicked": "·", "dropped": "✗"}
_BEFORE_SELECTION, _SELECTION = "silver_decomposed", "diversity_selected"
_JUDGED = ("step", "reason", "value", "threshold", "engine")
_TEXT = 200
_LISTED = 6


@dataclass(frozen=True, slots=True)
class MatchedClaim:
    """The claim that a duplicate or a leak was matched with, and where it is stored."""

    claim_id: str
    name: str
    where: Where
    claim: str | None


@dataclass(frozen=True, slots=True)
class ClaimRows:
    """The rows of one claim in the data folder.

    ``rows`` maps each stage whose frame has the claim to its row (``claims``, or ``benchmark`` for
    a test claim, first); ``ran`` names the materialized stages; ``drop`` is its row of ``DROPS``;
    ``displaced`` are the claims that were dropped because they match this one.
    """

    claim_id: str
    where: Where
    rows: Mapping[str, Row]
    ran: frozenset[str]
    drop: Row | None = None
    matched: MatchedClaim | None = None
    displaced: tuple[MatchedClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """What one stage did with the claim, in words and numbers.

    ``unpicked``: the selection did not pick the claim, and the next stage decides.
    """

    stage: str
    outcome: Outcome
    words: str
    numbers: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimJourney:
    """One claim's way through the funnel.

    ``claim`` is None where it was dropped before its text was stored.
    """

    claim_id: str
    source: str
    where: Where
    label: str | None
    claim: str | None
    events: tuple[Event, ...]
    matched: MatchedClaim | None
    displaced: tuple[MatchedClaim, ...]
    end: str


def claim_journey(stored: ClaimRows) -> ClaimJourney:
    """The way of a claim through the funnel, from its rows."""
    first = next(iter(stored.rows.values()), stored.drop or {})
    events = _events(stored)
    if stored.drop is not None:
        drop = stored.drop
        numbers = {name: drop.get(name) for name in _JUDGED}
        events.append(Event(str(drop["stage"]), "dropped", drop_words(drop), numbers))
    label = first.get("label")
    claim = first.get("claim")
    return ClaimJourney(
        claim_id=stored.claim_id,
        source=str(first.get("source")),
        where=stored.where,
        label=None if label is None else str(label),
        claim=None if claim is None else str(claim),
        events=tuple(events),
        matched=stored.matched,
        displaced=stored.displaced,
        end=_end(stored),
    )


def journey_text(journey: ClaimJourney) -> str:
    """The journey as lines for a terminal; ``✓`` and ``✗`` mark passed and dropped."""
    kind = "benchmark " if journey.where == "benchmark" else ""
    lines = [f"{journey.claim_id}  {kind}{journey.source} · {journey.label or 'no label'}"]
    lines.append(
        f"“{one_line(journey.claim, _TEXT)}”" if journey.claim else "(its text is not stored)"
    )
    lines.append("")
    lines += [f"{_MARKS[e.outcome]} {e.stage:<19} {e.words}" for e in journey.events]
    if journey.matched is not None:
        lines += ["", f"It matches {match_words(journey.matched)}"]
    if journey.displaced:
        rest = len(journey.displaced) - _LISTED
        lines += ["", f"{len(journey.displaced)} claims left because they match this one:"]
        lines += [f"  {match_words(match)}" for match in journey.displaced[:_LISTED]]
        lines += [f"  and {rest} more"] if rest > 0 else []
    return "\n".join([*lines, "", journey.end])


def drop_words(drop: Row) -> str:
    """Why a claim was dropped, in words: reason, number and bound, step and engine.

    For example ``too few tokens: 120 is below 200 (step token_budget, engine words_x1.3)``.
    """
    reason = str(drop["reason"]).replace("_", " ")
    engine = drop.get("engine")  # null or missing: no engine gave a number
    by = f"step {drop['step']}" if engine is None else f"step {drop['step']}, engine {engine}"
    return f"{reason}{_compared(drop['value'], drop['threshold'])} ({by})"


def _compared(value: object, threshold: object) -> str:
    """The number compared with its bound, with enough digits to tell them apart."""
    if value is None or (value == threshold == 1.0):  # 1.0 of 1.0 is an exact match
        return ""
    if threshold is None:
        return f": {_number(value)}"
    number, bound = float(str(value)), float(str(threshold))
    side = "below" if number < bound else "at or above"
    same = number != bound and _number(number) == _number(bound)
    shown = f"{number:.12g}" if same else _number(value)
    return f": {shown} is {side} {_number(threshold)}"


def match_words(match: MatchedClaim) -> str:
    """The matched claim in words: its id, where it is stored, its text."""
    kinds = {"benchmark": "test claim of", "source": "claim of", "unknown": "claim of"}
    text = f": “{one_line(match.claim, _TEXT)}”" if match.claim else " (its text is not stored)"
    return f"{match.claim_id}, {kinds[match.where]} {match.name}{text}"


def _end(stored: ClaimRows) -> str:
    if stored.drop is not None and stored.drop["step"] == "holdout":
        return _held_out(stored, str(stored.drop["reason"]))
    if stored.where == "benchmark":
        return "A test claim: it never enters training; training claims that match it leave."
    if stored.drop is not None:
        return f"Dropped by {stored.drop['stage']}."
    if STAGES[-1] in stored.rows:
        origin = str(stored.rows[STAGES[-1]]["origin"]).replace("_", " ")
        return f"In the training set ({origin})."
    last = max((i for i, stage in enumerate(STAGES) if stage in stored.rows), default=0)
    after = STAGES[last + 1]
    if after == _SELECTION and after in stored.ran:
        after = STAGES[-1]
    if after in stored.ran:
        return f"Neither kept nor dropped by {after}: its data is older; materialize it again."
    return f"Still in the funnel: {after} has not run."


def _held_out(stored: ClaimRows, reason: str) -> str:
    """The end of a claim that a hold-out split dropped from training or from the test set."""
    if reason == "training_document":
        return "No test claim: its document is left to training."
    row = stored.rows.get("benchmark")
    serves = "the benchmark" if row is None else f"the benchmark {row['source']}"
    return f"Held out: it serves {serves} and never enters training, nor do its matches."


def _events(stored: ClaimRows) -> list[Event]:
    """The stages that kept the claim, and the selection where it did not pick it."""
    events = []
    for stage in STAGES:
        if stage in stored.rows:
            words, numbers = _DESCRIBERS.get(stage, _kept)(stored.rows[stage])
            events.append(Event(stage, "passed", words, numbers))
        elif stage == _SELECTION and stage in stored.ran and _BEFORE_SELECTION in stored.rows:
            row = stored.rows[_BEFORE_SELECTION]
            words = f"not among the picks of its cell ({row['label']} of {row['source']})"
            events.append(Event(stage, "unpicked", words))
    return events


def _kept(_row: Row) -> tuple[str, dict[str, object]]:
    return "kept", {}


def _claims(row: Row) -> tuple[str, dict[str, object]]:
    passages = len(_list(row["passages"]))
    numbers = {"native_id": row["native_id"], "split": row["split"], "passages": passages}
    words = f"row {row['native_id']} of split {row['split']}, {passages} passages"
    return one_line(words), numbers


def _rules(row: Row) -> tuple[str, dict[str, object]]:
    names = ("evidence_words", "evidence_tokens", "token_unit", "overlap", "entities")
    entities = _list(row["entities"])
    shown = ", ".join(one_line(name, 30) for name in entities[:_LISTED])
    words = f"{_length(row)}, overlap {_number(row['overlap'])}, {len(entities)} entities: {shown}"
    return words, {name: row.get(name) for name in names}


def _length(row: Row) -> str:
    """The length of the evidence: in tokens if they were counted, else in words."""
    if row["evidence_tokens"] is None:
        return f"{_number(row['evidence_words'])} words (tokens not counted)"
    return f"{_number(row['evidence_tokens'])} tokens ({row['token_unit']})"


def _difficulty(row: Row) -> tuple[str, dict[str, object]]:
    names = ("support_probability", "label_confidence")
    words = (
        f"P(supported) {_number(row['support_probability'])}, "
        f"confidence in its label {_number(row['label_confidence'])}"
    )
    return words, {name: row[name] for name in names}


def _silver(row: Row) -> tuple[str, dict[str, object]]:
    questions = _list(row["questions"])
    indent = "\n" + " " * 22
    listed = "".join(f"{indent}{i}. {one_line(q, 90)}" for i, q in enumerate(questions, 1))
    return f"{row['n_star']} questions{listed}", {"n_star": row["n_star"], "questions": questions}


def _selected(row: Row) -> tuple[str, dict[str, object]]:
    cell = str(row["bucket"]).replace("|", " of ")
    numbers = {name: row[name] for name in ("bucket", "selection_rank", "selection_gain")}
    gain = _number(row["selection_gain"])
    return f"pick {int(str(row['selection_rank'])) + 1} of its cell ({cell}), gain {gain}", numbers


def _training(row: Row) -> tuple[str, dict[str, object]]:
    origin = str(row["origin"])
    words = {"selected": "selected for diversity", "long_evidence": "added for long evidence"}
    return words.get(origin, origin), {"origin": origin}


_DESCRIBERS: dict[str, Callable[[Row], tuple[str, dict[str, object]]]] = {
    "claims": _claims,
    "rule_filtered": _rules,
    "difficulty_band": _difficulty,
    "silver_decomposed": _silver,
    "diversity_selected": _selected,
    "training_claims": _training,
}


def _list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _number(value: object) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.3g}"
    return count(int(str(value).removesuffix(".0"))) if value is not None else "–"
