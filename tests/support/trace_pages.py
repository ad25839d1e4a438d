"""Traces to look at: a small set with every special case, and any number of invented ones."""

from collections.abc import Sequence
from typing import Any

FLAGS = (
    "wrong",
    "confident_and_wrong",
    "abstained",
    "harmful_question",
    "unparsed",
    "truncated",
    "failed",
    "conflict",
    "not_in_evidence",
)
HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>",
    "<!-- <script> --> ]]> &lt;b&gt;not bold&lt;/b&gt; {claim} ${1} `x`",
    "line\u2028and paragraph\u2029separators, \u202ereversed\u202c, nul \u0000, and \ud800 alone",
)
EVIDENCE = (
    "Ada Brown was a Danish swimmer. She was born in Odense in 1912.\n\n"
    "She won the national championship in 1937. Her club kept no records of other years."
)
SENTENCES = [[0, 31], [32, 63], [65, 107], [108, 148]]
REWARDS = (
    ("format", 1.0, 0),
    ("verification", 0.0, 0),
    ("question_count", 0.75, 0),
    ("diversity", -0.4, -1),
    ("coverage", None, 0),
    ("necessity", -1.0, -1),
)

Index = dict[str, Any]
Block = dict[str, Any]


def cycle(question: str, answer: str, status: str = "grounded", **more: object) -> dict[str, Any]:
    """A cycle of a trace, with nothing known beyond its status unless given."""
    empty = {
        "thought": "",
        "spans": [],
        "necessity": None,
        "answerable": None,
        "atomicity": None,
        "correct": None,
        "nearest": None,
    }
    return {"question": question, "answer": answer, "status": status} | empty | more


def detail(cycles: Sequence[dict[str, Any]] = (), **more: object) -> dict[str, Any]:
    """A trace's detail, with nothing known beyond its cycles unless given."""
    empty: dict[str, Any] = {
        "evidence": 0,
        "opening": "",
        "closing": "",
        "reply": "",
        "confidence": None,
        "agreement": None,
        "rewards": [],
        "conflicts": [],
        "judge": [],
        "faults": [],
        "warnings": [],
        "notes": "",
        "prompt_hash": "",
        "seed": None,
        "method": "trace",
        "model": "tiny",
        "protocol": "",
        "source": "",
    }
    return empty | {"cycles": list(cycles)} | more


def trace(claim_id: str, claim: str, made: dict[str, Any], **more: object) -> dict[str, Any]:
    """A trace: what the index says of it, and its ``detail``."""
    known = {
        "claim_id": claim_id,
        "claim": claim,
        "system": 0,
        "benchmark": 0,
        "step": None,
        "rollout": None,
        "verdict": "S",
        "gold": "S",
        "confidence": None,
        "status": "parsed",
        "total": None,
        "flags": [],
        "of": "0a1b2c3d",
    }
    cycles = made["cycles"]
    counted = {
        "questions": len(cycles),
        "abstentions": sum(one["status"] == "abstained" for one in cycles),
    }
    return known | counted | more | {"detail": made}


def pages(
    blocks: Sequence[Sequence[dict[str, Any]]],
    evidence: Sequence[str] = (EVIDENCE,),
    **more: object,
) -> tuple[Index, list[Block]]:
    """Index and blocks of the traces in ``blocks``; every block has the same evidence."""
    sentences = {EVIDENCE: SENTENCES}
    texts = [{"text": text, "sentences": sentences.get(text, [])} for text in evidence]
    every = [one for block in blocks for one in block]
    columns = [name for name in (every[0] if every else {}) if name not in {"detail", "flags"}]
    index: Index = {
        "version": 1,
        "title": "Two systems on three claims",
        "made": "decomposerl 0.1.0 · rules",
        "warnings": [],
        "live": False,
        "reviewer": "",
        "systems": [
            {"key": "decomposerl-tiny", "title": "DecomposeRL tiny", "engine": "tiny-1"},
            {"key": "self_ask-rules", "title": "Self-Ask, rules", "engine": "rules"},
        ],
        "benchmarks": ["fever", "wice-with-a-name-that-is-longer-than-the-page-is-wide"],
        "confidence_kind": "calibrated",
        "blocks": len(blocks),
        "block_of": [number for number, block in enumerate(blocks) for _ in block],
        "place_of": [place for block in blocks for place in range(len(block))],
        "flag_names": list(FLAGS),
        "flags": [sum(1 << FLAGS.index(name) for name in one["flags"]) for one in every],
    }
    index |= {name: [one[name] for one in every] for name in columns}
    return {**index, **more}, [
        {"evidence": texts, "items": [one["detail"] for one in block]} for block in blocks
    ]


def full_cycles() -> list[dict[str, Any]]:
    """Four questions with every status but "contradicted", and all that a judge can find."""
    born = cycle(
        "Where was Ada Brown born?",
        "She was born in Odense.",
        thought="The second sentence names the place.",
        spans=[{"answer": [0, 22], "evidence": [32, 54], "match": "exact"}],
        necessity={"finding": "necessary", "without": "Not enough information"},
        answerable=True,
        atomicity=[{"mark": m, "met": m != "single focus"} for m in ("clear", "single focus")],
        correct=True,
    )
    won = cycle(
        "When did she win the championship?",
        "In 1937.",
        spans=[{"answer": [3, 7], "evidence": [99, 107], "match": "normalised"}],
        nearest={"question": 0, "cosine": 0.41},
    )
    again = cycle("When did she win again?", "I don't know.", "abstained", answerable=True)
    lost = cycle("Which year did she win?", "In 1938.", "not_in_evidence", correct=False)
    return [born, won, again, lost]


def full_detail() -> dict[str, Any]:
    """A trace with everything a trace can have."""
    call = {"task": "coverage", "role": "full", "question": None, "value": "Supported"}
    call |= {"failure": None, "engine": "rules", "prompt": "Is it <covered>?", "reply": "Yes."}
    return detail(
        full_cycles(),
        opening="I check place and years.",
        closing="Both hold.",
        reply="<think>I check place and years.</think>",
        confidence={"raw": 0.99, "normalised": 0.97, "calibrated": 0.93, "meaning": "of 200 dev"},
        agreement=0.8,
        rewards=[
            {"name": name, "value": value, "state": "", "weight": 1.0, "low": low, "high": 1.0}
            for name, value, low in REWARDS
        ],
        conflicts=[{"first": 1, "second": 3, "kind": "date", "values": ["1937", "1938"]}],
        judge=[call, call | {"task": "correctness", "question": 0, "prompt": "Is it right?"}],
        seed=42,
        prompt_hash="3fa9",
    )


def one_claim_of_two_systems() -> list[dict[str, Any]]:
    """A claim: two systems, and two rollouts at each of three training steps."""
    swimmer = "Ada Brown was born in Odense and won the championship in 1938."
    wrong = ["wrong", "confident_and_wrong", "abstained", "conflict", "not_in_evidence"]
    asked = detail([cycle("Where was Ada Brown born?", "In Odense."), cycle("Why?", "No.")])
    rules = {"system": 1, "verdict": "R", "gold": "R", "confidence": 0.55}
    return [
        trace("c1", swimmer, full_detail(), gold="R", confidence=0.93, flags=wrong),
        trace("c1", swimmer, asked, **rules),
        *(
            trace(
                "c1",
                swimmer,
                detail([cycle(f"What happened at step {step}?", f"Answer {rollout}.")]),
                step=step,
                rollout=rollout,
                verdict="R" if step > rollout else "S",
                gold="R",
                total=0.1 * step + rollout,
                flags=[] if step > rollout else ["wrong"],
            )
            for step in (0, 10, 20)
            for rollout in (0, 1)
        ),
    ]


def broken_traces() -> list[dict[str, Any]]:
    """A truncated, an unparsed and a failed trace."""
    cut = detail([cycle("Why", "So")], reply="<question>Why</question><ans")
    unread = detail(reply="no tags at all", faults=["no_verdict"])
    none: dict[str, Any] = {"verdict": "", "benchmark": 1}
    return [
        trace("c2", "Cut.", cut, status="truncated", flags=["wrong", "truncated"], **none),
        trace("c3", "Unread.", unread, status="unparsed", gold="", flags=["unparsed"], **none),
        trace("c4", "Failed.", detail(), status="failed", flags=["failed"], **none),
    ]


def hostile_traces() -> list[dict[str, Any]]:
    """Texts that would break out of a page that takes them for HTML, script or JSON."""
    return [
        trace(
            f"h/{number}?#&%\ud800",
            text,
            detail(
                [cycle(text, text, thought=text)], evidence=1, opening=text, reply=text, notes=text
            ),
            confidence=0.7,
        )
        for number, text in enumerate(HOSTILE)
    ]


def special_traces() -> tuple[Index, list[Block]]:
    """Every special case, in three blocks."""
    blocks = [one_claim_of_two_systems(), broken_traces(), hostile_traces()]
    return pages(blocks, evidence=(EVIDENCE, "\n".join(HOSTILE)))
