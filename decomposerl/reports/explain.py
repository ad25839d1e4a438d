"""One claim's life in the funnel, told in order: each stage, its numbers, its end.

Takes what the tables hold of one claim (``ClaimRows``) and gives a ``ClaimJourney``: data for
``--json`` and lines for a terminal. Claims are untrusted text and come out on one line.

Left out deliberately: finding the claim on disk (``resources/catalogue/claim_lookup.py``).
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
    """The claim that a duplicate or a leak was matched with, and where it lives."""

    claim_id: str
    name: str
    where: Where
    claim: str | None


@dataclass(frozen=True, slots=True)
class ClaimRows:
    """What the tables hold of one claim.

    ``rows`` maps each stage whose frame has the claim to its row (``claims``, or
    ``benchmark`` for a test claim, first); ``ran`` names the stages that have been
    materialized; ``drop`` is its row of ``DROPS``; ``displaced`` are the claims that left
    because they match this one.
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
    """What one stage did: ``passed`` with its numbers, or ``dropped`` and why in words.

    ``unpicked``: the selection passed the claim by, and the next stage decides.
    """

    stage: str
    outcome: Outcome
    words: str
    numbers: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimJourney:
    """One claim's life; ``claim`` is None where it left before its text was stored."""

    claim_id: str
    source: str
    where: Where
    label: str | None
    claim: str | None
    events: tuple[Event, ...]
    matched: MatchedClaim | None
    displaced: tuple[MatchedClaim, ...]
    end: str


def claim_journey(found: ClaimRows) -> ClaimJourney:
    """Tell the life of a claim from what the tables hold of it."""
    first = next(iter(found.rows.values()), found.drop or {})
    events = _events(found)
    if found.drop is not None:
        drop = found.drop
        numbers = {name: drop.get(name) for name in _JUDGED}
        events.append(Event(str(drop["stage"]), "dropped", drop_words(drop), numbers))
    label = first.get("label")
    claim = first.get("claim")
    return ClaimJourney(
        claim_id=found.claim_id,
        source=str(first.get("source")),
        where=found.where,
        label=None if label is None else str(label),
        claim=None if claim is None else str(claim),
        events=tuple(events),
        matched=found.matched,
        displaced=found.displaced,
        end=_end(found),
    )


def journey_text(story: ClaimJourney) -> str:
    """The life as lines for a terminal; ``✓`` and ``✗`` mark what passed and what left."""
    place = "benchmark " if story.where == "benchmark" else ""
    lines = [f"{story.claim_id}  {place}{story.source} · {story.label or 'no label'}"]
    lines.append(f"“{one_line(story.claim, _TEXT)}”" if story.claim else "(its text is not stored)")
    lines.append("")
    lines += [f"{_MARKS[e.outcome]} {e.stage:<19} {e.words}" for e in story.events]
    if story.matched is not None:
        lines += ["", f"It matches {match_words(story.matched)}"]
    if story.displaced:
        rest = len(story.displaced) - _LISTED
        lines += ["", f"{len(story.displaced)} claims left because they match this one:"]
        lines += [f"  {match_words(match)}" for match in story.displaced[:_LISTED]]
        lines += [f"  and {rest} more"] if rest > 0 else []
    return "\n".join([*lines, "", story.end])


def drop_words(drop: Row) -> str:
    """Why a claim left, in words: what it was, its number and bound, the step and engine.

    For example ``too few tokens: 120 is below 200 (step token_budget, engine words_x1.3)``.
    """
    reason = str(drop["reason"]).replace("_", " ")
    engine = drop.get("engine")  # null, or not there: no program gave a number
    by = f"step {drop['step']}" if engine is None else f"step {drop['step']}, engine {engine}"
    return f"{reason}{_held(drop['value'], drop['threshold'])} ({by})"


def _held(value: object, threshold: object) -> str:
    """The number held against its bound, with digits enough to tell them apart."""
    if value is None or (value == threshold == 1.0):  # the second is an exact match
        return ""
    if threshold is None:
        return f": {_number(value)}"
    number, bound = float(str(value)), float(str(threshold))
    side = "below" if number < bound else "at or above"
    same = number != bound and _number(number) == _number(bound)
    shown = f"{number:.12g}" if same else _number(value)
    return f": {shown} is {side} {_number(threshold)}"


def match_words(match: MatchedClaim) -> str:
    """The matched claim in words: its id, where it lives, its text."""
    lives = {"benchmark": "test claim of", "source": "claim of", "unknown": "claim of"}
    text = f": “{one_line(match.claim, _TEXT)}”" if match.claim else " (its text is not stored)"
    return f"{match.claim_id}, {lives[match.where]} {match.name}{text}"


def _end(found: ClaimRows) -> str:
    if found.drop is not None and found.drop["step"] == "holdout":
        return _shared(found, str(found.drop["reason"]))
    if found.where == "benchmark":
        return "A test claim: it never enters training; training claims that match it leave."
    if found.drop is not None:
        return f"Dropped by {found.drop['stage']}."
    if STAGES[-1] in found.rows:
        origin = str(found.rows[STAGES[-1]]["origin"]).replace("_", " ")
        return f"In the training set ({origin})."
    last = max((i for i, stage in enumerate(STAGES) if stage in found.rows), default=0)
    after = STAGES[last + 1]
    if after == _SELECTION and after in found.ran:
        after = STAGES[-1]
    if after in found.ran:
        return f"Neither kept nor dropped by {after}: its data is older; materialize it again."
    return f"Still in the funnel: {after} has not run."


def _shared(found: ClaimRows, reason: str) -> str:
    """The end of a claim that one side of a hold-out split left to the other."""
    if reason == "training_document":
        return "No test claim: its document is left to training."
    row = found.rows.get("benchmark")
    serves = "the benchmark" if row is None else f"the benchmark {row['source']}"
    return f"Held out: it serves {serves} and never enters training, nor do its matches."


def _events(found: ClaimRows) -> list[Event]:
    """The stages that hold the claim, and the selection where it passed the claim by."""
    events = []
    for stage in STAGES:
        if stage in found.rows:
            words, numbers = _TELLERS.get(stage, _kept)(found.rows[stage])
            events.append(Event(stage, "passed", words, numbers))
        elif stage == _SELECTION and stage in found.ran and _BEFORE_SELECTION in found.rows:
            row = found.rows[_BEFORE_SELECTION]
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
    """The length of the evidence: in tokens where they were counted, else in words."""
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


_TELLERS: dict[str, Callable[[Row], tuple[str, dict[str, object]]]] = {
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
