"""The result of a claim: verdict, confidence, questions, and the evidence each answer rests on."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from decomposerl.baselines.method import Notes, ParseStatus, Verification
from decomposerl.baselines.minicheck import SUPPORT
from decomposerl.evaluation.calibration import Calibration, Confidence
from decomposerl.evaluation.scored_claims import BEYOND_CONTEXT
from decomposerl.reports.shown_confidence import VerdictConfidence, confidence_of
from decomposerl.schemas import Basis
from decomposerl.text.numbers import lists_more
from decomposerl.traces.basis import basis_of
from decomposerl.traces.grounding import says_something, sentences_behind
from decomposerl.traces.table_cells import TableCell, table_cells
from decomposerl.traces.trace import Verdict

_NO_VERDICT: dict[ParseStatus, str] = {
    "unparsed": "no verdict could be read",
    "truncated": "the token limit ended the reply before its verdict",
    "failed": "a call got no reply",
}
_BEYOND = {
    "best_sentences": "the evidence exceeds the model's context: only the sentences nearest to the "
    "claim were read",
    "wrong": "the evidence exceeds the model's context: it was not read",
}


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """A file or page that was read to find evidence, and the ``text`` that was used of it, if any.

    ``title``, ``query`` and ``read_at`` (ISO 8601) are of a page.
    """

    place: str
    text: str
    title: str = ""
    query: str = ""
    read_at: str = ""


@dataclass(frozen=True, slots=True)
class VerifiedQuestion:
    """A question, its answer, and the sentences of the evidence that the answer rests on.

    ``evidence`` is empty where the answer abstains or is a bare yes, no or verdict, and where no
    sentence is near to it; ``places`` are their files or pages, where it was found. ``cells`` are
    figures of a table that the answer gives, ``thought`` is what the system wrote after the answer.
    """

    question: str
    answer: str
    evidence: tuple[str, ...] = ()
    thought: str = ""
    places: tuple[str, ...] = ()
    cells: tuple[TableCell, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifiedClaim:
    """The verdict of ``system`` on a claim, with its trace.

    ``verdict`` is None where there is none; ``warnings`` then say why. ``confidence`` is None where
    the system has no probabilities (rules). ``engine`` names program and model. ``claim_id`` is the
    caller's own, if any. ``evidence`` is the text that was read, a passage a line; ``opening`` and
    ``reply`` are the thought before the first question and the output with the verdict, raw.
    ``notes`` are the method's findings, ``sources`` what was read where the evidence was found.
    """

    claim: str
    verdict: Verdict | None
    confidence: VerdictConfidence | None
    questions: tuple[VerifiedQuestion, ...]
    system: str
    engine: str
    warnings: tuple[str, ...]
    claim_id: str = ""
    evidence: str = ""
    status: ParseStatus = "parsed"
    opening: str = ""
    reply: str = ""
    prompt_hash: str = ""
    notes: Notes = field(default_factory=dict)
    sources: tuple[EvidenceSource, ...] = ()

    @property
    def basis(self) -> Basis | None:
        """Whether all, some or none of the answers are known; None for a system that asks none."""
        return basis_of(one.answer for one in self.questions)

    def as_json(self) -> dict[str, Any]:
        """The fields and the basis; ``claim_id``, ``sources`` and ``places`` if there are any."""
        values = asdict(replace(self, notes=dict(self.notes))) | {"basis": self.basis}
        claim_id, sources = values.pop("claim_id"), values.pop("sources")
        values |= {"sources": sources} if sources else {}
        for question in () if sources else values["questions"]:
            del question["places"]
        return {"claim_id": claim_id, **values} if claim_id else values


@dataclass(frozen=True, slots=True)
class Verifying:
    """A system as its results name it; ``warnings`` hold for all of its claims."""

    system: str
    engine: str
    prompt_hash: str
    calibration: Calibration | None = None
    warnings: tuple[str, ...] = ()

    def verified(
        self,
        claim: str,
        evidence: str,
        ended: Verification,
        confidence: Confidence | None,
        claim_id: str = "",
    ) -> VerifiedClaim:
        """The result for one claim."""
        questions = tuple(
            VerifiedQuestion(
                cycle.question,
                cycle.answer,
                sentences_behind(cycle.question, cycle.answer, evidence),
                cycle.thought or "",
                cells=table_cells(cycle.question, cycle.answer, evidence),
            )
            for cycle in ended.cycles
        )
        calibrated, fit, chance = None, "", ended.notes.get(SUPPORT)
        if confidence is not None and (fitted := self.calibration) is not None:
            calibrated = float(fitted.apply(np.array([confidence.normalised]))[0])
            fit = f", among {fitted.rows:,} claims of {fitted.fitted_on}"
        support = chance if isinstance(chance, float) else None
        return VerifiedClaim(
            claim,
            ended.verdict,
            confidence_of(ended.verdict, support, confidence, calibrated, fit),
            questions,
            self.system,
            self.engine,
            (*_warnings(claim, evidence, ended, questions), *self.warnings),
            claim_id,
            evidence,
            ended.status,
            ended.opening,
            ended.reply,
            self.prompt_hash,
            ended.notes,
        )


def _warnings(
    claim: str, evidence: str, ended: Verification, questions: Sequence[VerifiedQuestion]
) -> Iterator[str]:
    if not evidence:
        return
    beyond = _BEYOND.get(str(ended.notes.get(BEYOND_CONTEXT)))
    if beyond:
        yield beyond
    elif ended.verdict is None:
        reason = f": {ended.reply}" if ended.status == "failed" else ""
        yield f"{_NO_VERDICT.get(ended.status, 'no verdict')}{reason}"
    for number, one in enumerate(questions, start=1):
        if not (one.evidence or one.cells) and says_something(one.answer):
            yield f"answer {number} is near to no sentence of the evidence"
    if ended.verdict == "Supported" and lists_more(claim, evidence):
        yield "the claim lists years or numbers of which the evidence holds only some"
