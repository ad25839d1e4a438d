"""From traces to the index and the blocks that the page reads.

Claims come one after another, each with all of its traces. A block is passed on as soon as it is
full, so only one block and the index are in memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decomposerl.reports.trace_page.details import (
    Grounded,
    detail_json,
    evidence_json,
    finite,
    grounded_answers,
)
from decomposerl.reports.trace_page.items import TraceItem, confidence_kind, distinct

VERSION = 1
CONFIDENT = 0.9
"""Least confidence of a verdict that is called confident."""
FLAG_NAMES = (
    "wrong",
    "confident_and_wrong",
    "silent",
    "partly_answered",
    "harmful_question",
    "unparsed",
    "truncated",
    "failed",
    "not_in_evidence",
)
_BIT = {name: 1 << place for place, name in enumerate(FLAG_NAMES)}
MOST_TRACES = 256
"""Traces after which a block ends at the next claim."""
MOST_CHARACTERS = 600_000
"""Characters of evidence and replies after which it does, too."""
MOST_ENGINES = 5
"""Engines that the line above the list names."""
_COLUMNS = (
    *("block_of", "place_of", "claim_id", "claim", "system", "benchmark", "step", "rollout"),
    *("verdict", "gold", "confidence", "status", "questions", "abstentions", "total", "flags"),
    "of",
)
Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageAbout:
    """What stands above the list. ``made`` names version and engines in one line."""

    title: str
    made: str = ""
    warnings: tuple[str, ...] = ()
    live: bool = False
    reviewer: str = ""


@dataclass(slots=True)
class TracePages:
    """Collects traces; ``keep`` receives each block, in order."""

    keep: Callable[[Block], None]
    titles: Mapping[str, str] = field(default_factory=dict)
    traces: int = 0
    _blocks: int = 0
    _block: Block = field(default_factory=lambda: {"evidence": [], "items": []})
    _texts: dict[str, int] = field(default_factory=dict)
    _characters: int = 0
    _columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    _confidences: list[tuple[float, float | None] | None] = field(default_factory=list)
    _systems: dict[str, int] = field(default_factory=dict)
    _named: list[dict[str, str]] = field(default_factory=list)
    _benchmarks: dict[str, int] = field(default_factory=dict)
    _also: dict[int, list[int]] = field(default_factory=dict)

    def add_claim(self, items: Sequence[TraceItem]) -> None:
        """Add all traces of one claim, which are ``distinct``."""
        for item in items:
            if item.evidence not in self._texts:
                self._texts[item.evidence] = len(self._block["evidence"])
                self._block["evidence"].append(evidence_json(item.evidence))
                self._characters += len(item.evidence)
            answers = grounded_answers(item)
            self._row(item, answers)
            detail = detail_json(item, answers, self._texts[item.evidence])
            self._block["items"].append(detail)
            self._characters += len(item.reply)
        if len(self._block["items"]) >= MOST_TRACES or self._characters >= MOST_CHARACTERS:
            self._end_block()

    def finished(self, about: PageAbout) -> dict[str, Any]:
        """The index; no claim may be added after it."""
        self._end_block()
        kind = confidence_kind([one[1] is not None for one in self._confidences if one])
        confidences = [_shown(one, kind) for one in self._confidences]
        columns = self._columns | {"confidence": confidences}
        columns["flags"] = [
            flags | _confidently(flags, confidence)
            for flags, confidence in zip(columns["flags"], confidences, strict=True)
        ]
        return {
            "version": VERSION,
            "title": about.title,
            "made": "; ".join(filter(None, (about.made, self._engines()))),
            "warnings": list(about.warnings),
            "live": about.live,
            "reviewer": about.reviewer,
            "systems": self._named,
            "benchmarks": list(self._benchmarks),
            "also": self._also,
            "confidence_kind": kind,
            "flag_names": list(FLAG_NAMES),
            "blocks": self._blocks,
            **columns,
        }

    def _engines(self) -> str:
        names = sorted({one["engine"] for one in self._named if one["engine"]})
        more = f" and {len(names) - MOST_ENGINES} more" if len(names) > MOST_ENGINES else ""
        return f"engines: {', '.join(names[:MOST_ENGINES])}{more}" if names else ""

    def _end_block(self) -> None:
        if self._block["items"]:
            self.keep(self._block)
            self._blocks += 1
            self._block, self._texts = {"evidence": [], "items": []}, {}
            self._characters = 0

    def _row(self, item: TraceItem, answers: Grounded) -> None:
        origin, confidence = item.origin, item.confidence
        values = {
            "block_of": self._blocks,
            "place_of": len(self._block["items"]),
            "claim_id": item.claim_id,
            "claim": item.claim,
            "system": self._system(item),
            "benchmark": self._benchmark(origin.benchmark),
            "step": origin.step,
            "rollout": origin.rollout,
            "verdict": (item.verdict or "")[:1],
            "gold": (item.gold or "")[:1],
            "status": item.status,
            "questions": len(item.cycles),
            "abstentions": sum(status == "abstained" for status, _ in answers),
            "total": finite(item.judged.total),
            "flags": trace_flags(item, answers),
            "of": item.digest,
        }
        if origin.also:
            self._also[self.traces] = [self._benchmark(name) for name in origin.also]
        for name, value in values.items():
            self._columns[name].append(value)
        numbers = None if confidence is None else (confidence.normalised, confidence.calibrated)
        self._confidences.append(numbers)
        self.traces += 1

    def _system(self, item: TraceItem) -> int:
        key, engine = item.origin.system, item.origin.engine
        if key not in self._systems:
            self._systems[key] = len(self._systems)
            self._named.append({"key": key, "title": self.titles.get(key, key), "engine": engine})
        return self._systems[key]

    def _benchmark(self, name: str) -> int:
        return self._benchmarks.setdefault(name, len(self._benchmarks)) if name else -1


def pages_of(items: Iterable[TraceItem], about: PageAbout) -> tuple[dict[str, Any], list[Block]]:
    """Index and blocks of traces in memory; the ``distinct`` ones of a claim are put together."""
    by_claim: dict[str, list[TraceItem]] = {}
    for item in items:
        by_claim.setdefault(item.claim_id, []).append(item)
    blocks: list[Block] = []
    pages = TracePages(blocks.append)
    for each in by_claim.values():
        pages.add_claim(distinct(each))
    return pages.finished(about), blocks


def trace_flags(item: TraceItem, answers: Grounded) -> int:
    """The bits of ``FLAG_NAMES`` that hold, but for ``confident_and_wrong``."""
    wrong = item.verdict is not None and item.gold is not None and item.verdict != item.gold
    statuses = {status for status, _ in answers}
    holds = {
        "wrong": wrong,
        "silent": item.basis == "silent",
        "partly_answered": item.basis == "partly",
        "harmful_question": "harmful" in item.judged.necessity,
        "unparsed": item.status == "unparsed",
        "truncated": item.status == "truncated",
        "failed": item.status == "failed",
        "not_in_evidence": "not_in_evidence" in statuses,
    }
    return sum(_BIT[name] for name, held in holds.items() if held)


def _confidently(flags: int, confidence: float | None) -> int:
    wrong = flags & _BIT["wrong"] and confidence is not None and confidence >= CONFIDENT
    return _BIT["confident_and_wrong"] if wrong else 0


def _shown(numbers: tuple[float, float | None] | None, kind: str) -> float | None:
    if numbers is None:
        return None
    shown = finite(numbers[1] if kind == "calibrated" else numbers[0])
    return None if shown is None else round(shown, 4)
