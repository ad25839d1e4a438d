"""Planted traces: claims of the invented world, each verified well and in known wrong ways.

Takes a seed, gives ``PlantedTrace`` values with their kinds and twins. They show what each
reward of the ensemble (paper, section 3.2) tells apart: a trace and its twin differ in one
respect. Traces of one claim form one group, as rollouts of one prompt do.

Left out deliberately: rewards and judges, which the traces are there to test, and
unlabelled claims: a reader can leave the label out.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from decomposerl.traces.records import group_of
from decomposerl.traces.trace import Verdict
from planted_traces.claims import FORMS, TraceClaim, trace_claim
from planted_traces.damage import broken, injected, truncated
from planted_traces.kinds import MAKERS, Draft
from sample.world import World

TRACE_KINDS = (*MAKERS, "injected", "injected_flawed", "broken", "truncated")
"""Every kind, in the order of a group. ``injected`` is a good trace that speaks to the judge,
``injected_flawed`` a wrong one that does; ``broken`` and ``truncated`` are damaged text."""
_FLAWED = ("hallucinated", "dodging", "non_atomic", "misled")
_LABELS: tuple[Verdict, ...] = ("Supported", "Refuted")
_ROUND = len(_LABELS) * len(FORMS)


@dataclass(frozen=True, slots=True)
class PlantedTrace:
    """One trace of a known kind.

    ``group`` names the claim with its evidence and ``number`` counts within it from 0.
    ``n_star`` is the number of the claim's sub-claims. ``twin`` is the place, among all
    planted traces, of the trace that this one was made from; None for the good one.
    """

    kind: str
    group: str
    number: int
    claim: str
    evidence: str
    label: Verdict
    n_star: int
    text: str
    twin: int | None = None
    truncated: bool = False

    def line(self) -> str:
        """The trace as a line for ``decomposerl score``; its kind is not in it."""
        record = {
            "claim": self.claim,
            "evidence": self.evidence,
            "trace": self.text,
            "label": self.label,
            "n_star": self.n_star,
            "group": self.group,
            "rollout": self.number,
            "truncated": self.truncated,
        }
        return json.dumps(record, ensure_ascii=False)


def planted_traces(seed: int = 7, claims: int = 48) -> tuple[PlantedTrace, ...]:
    """The traces of ``claims`` claims, group by group; the same seed gives the same traces.

    Labels alternate; forms take turns every two claims. A kind that a claim does not allow
    (``harmful`` of a refuted one) is left out of its group.

    Raises:
        ValueError: ``claims`` is negative.
    """
    if claims < 0:
        raise ValueError(f"the number of claims must not be negative, got {claims}")
    world = World(random.Random(seed))
    made: list[PlantedTrace] = []
    for turn in range(claims):
        form = FORMS[turn // len(_LABELS) % len(FORMS)]
        claim = trace_claim(world, form, _LABELS[turn % 2], wording=turn // _ROUND % 2)
        made += _group(claim, turn, first=len(made))
    return tuple(made)


def _group(claim: TraceClaim, turn: int, first: int) -> Iterator[PlantedTrace]:
    """All traces of one claim; ``first`` is the place of the first among all.

    What varies by turn goes through its values once a pair of claims, so that both labels
    meet every value; injections go on at every claim.
    """
    pair = turn // len(_LABELS)
    drafts = {kind: draft for kind, make in MAKERS.items() if (draft := make(claim, pair))}
    places = {kind: first + number for number, kind in enumerate(drafts)}
    texts = {kind: (draft.text(), places["good"]) for kind, draft in drafts.items()}
    flawed = _FLAWED[pair % len(_FLAWED)]
    written = texts["good"][0]
    texts |= {
        "injected": (_injected(drafts["good"], turn), places["good"]),
        "injected_flawed": (_injected(drafts[flawed], turn + 1), places[flawed]),
        "broken": (broken(written, pair), places["good"]),
        "truncated": (truncated(written), places["good"]),
    }
    group = group_of(claim.claim, claim.evidence)
    for number, (kind, (text, twin)) in enumerate(texts.items()):
        yield PlantedTrace(
            kind,
            group,
            number,
            claim.claim,
            claim.evidence,
            claim.label,
            len(claim.parts),
            text,
            None if kind == "good" else twin,
            truncated=kind == "truncated",
        )


def _injected(draft: Draft, turn: int) -> str:
    """The draft's text with an injection in its last cycle."""
    return injected(draft.text(), draft.cycles[-1], turn)
