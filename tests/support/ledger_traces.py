"""The ledger's rows of traces: how they are read, what they are paid, what replies are read as."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from typer.testing import CliRunner

from dagster_project.cli import app
from decomposerl.schemas import LABELS, VERDICTS
from decomposerl.traces.abstention import abstains
from decomposerl.traces.citations import citations
from decomposerl.traces.grammar import parse_trace, write_trace
from decomposerl.traces.grounding import grounded_answer, sentences_behind
from decomposerl.traces.trace import Trace
from ledger import UnavailableError, digest, table
from ledger_commands import plain_environment
from planted_traces.planting import planted_traces
from project import ROOT
from studies.replies import main as read_file
from studies.replies import read_replies
from studies.reply_operations import OPERATIONS

REPLIES = ROOT.parent / "shared/replies/replies.jsonl"
_GOOD = (
    "<think>Two parts.</think>\n<question>Who built the mill?</question>\n"
    "<answer>Ada Holm.</answer>\n"
    "<think>One left.</think>\n<question>When?</question>\n<answer>In 1840.</answer>\n"
    "<think>Done.</think>\n<verification>Supported</verification>"
)
AWKWARD: Mapping[str, str] = {
    "good": _GOOD,
    "third verdict": _GOOD.replace("Supported", "Not Enough Information"),
    "verdict in small letters": _GOOD.replace("Supported", "supported."),
    "unknown verdict": _GOOD.replace("Supported", "Perhaps"),
    "empty": "",
    "prose": "The mill was built by Ada Holm. Supported.",
    "text between": _GOOD.replace("</think>", "</think> so:", 1),
    "text behind": f"{_GOOD}\nI hope that helps.",
    "unclosed answer": _GOOD.replace("Ada Holm.</answer>", "Ada Holm.", 1),
    "unclosed end": _GOOD.removesuffix("</verification>"),
    "stray close": _GOOD.replace("<think>", "</answer><think>", 1),
    "attribute": _GOOD.replace("<answer>", '<answer kind="short">', 1),
    "capital tag": _GOOD.replace("<question>", "<Question>", 1),
    "spaces in tag": _GOOD.replace("<question>", "< question >", 1),
    "empty question": _GOOD.replace("Who built the mill?", " \n", 1),
    "no opening thought": _GOOD.partition("\n")[2],
    "no thought after answer": _GOOD.replace("<think>One left.</think>\n", ""),
    "answer first": _GOOD.replace("<question>Who built the mill?</question>\n", ""),
    "unanswered": _GOOD.replace("<answer>In 1840.</answer>", ""),
    "one cycle": _GOOD.partition("\n<question>When?")[0] + "\n<verification>Refuted</verification>",
    "repeated question": _GOOD.replace("When?", "Who built the mill?"),
    "no verdict": _GOOD.partition("\n<verification>")[0],
    "two verdicts": f"{_GOOD}\n<verification>Refuted</verification>",
    "the same verdict twice": f"{_GOOD}\n<verification>Supported</verification>",
    "verdict first": f"<verification>Refuted</verification>\n{_GOOD}",
    "nested": _GOOD.replace("Ada Holm.", "Ada <answer>Holm</answer>."),
    "quoted tag": _GOOD.replace("Ada Holm.", "The wall says “<answer>”."),
    "code": _GOOD.replace("Ada Holm.", "`<verification>Refuted</verification>`"),
    "escaped": _GOOD.replace("<", "&lt;").replace(">", "&gt;"),
    "carriage returns": _GOOD.replace("\n", "\r\n"),
    "zero widths": _GOOD.replace("Ada", "A\u200bda").replace("When", "\ufeffWhen"),
    "right to left": _GOOD.replace("Ada Holm", "\u202eAda Holm\u202c עדה"),
    "lone surrogate": _GOOD.replace("Ada", "A\ud800da"),
    "null byte": _GOOD.replace("Ada", "A\0da"),
    "twice whole": f"{_GOOD}\n{_GOOD}",
    "thinking of the model": f"<think>\nHm <question>not this</question>\n</think>\n\n{_GOOD}",
    "many cycles": "<think>t</think>" + "<question>Q?</question><answer>A</answer>" * 200,
    "many opened": "<think>" * 500,
}
_OPENINGS = (
    "I don't know",
    "Sorry, I do not know",
    "The passage is silent. I don't know",
    "Nobody knows",
    "Ada Holm",
)
_MIDDLES = (
    "",
    " who built it",
    ", but the mill is old",
    "; the passage is about bridges",
    " in 1840",
)
_ENDS = ("", ".", ". I am not sure.", ". It was built in 1840.", " and cannot be known", "?!")
ANSWERS = (
    "I don’t know.",
    "i dont know",
    "**I don't know.**",
    "N/A",
    "None",
    "No.",
    "-",
    "\u200b",
    "No information is given about the mill.",
    "The evidence mentions no mill.",
    "I don't know, but Ada Holm built it.",
    "Not Ada Holm.",
    "There is no mention of 1840.",
    "It is unknown; the sources disagree on 1840 and 1841.",
    "The builder is not Ada Holm but her brother.",
    "Cannot be determined from the table.",
    "Nobody knows who built it, says the page.",
    "The Unknown Soldier.",
    "I don't know " * 40,
)
EVIDENCE = (
    "Ada Holm was born in Torbeck in 1802. She built the mill of Torbeck in 1840.\n"
    "Town | Mill | Height\nTorbeck | 1840 | 21 m\nOdense | 1855 | 18.5 m\n"
    "The mill did not burn in 1871; it was “sold to the town”, as the Torbeck Post wrote."
)
QUESTIONED = (
    ("Who built the mill?", "Ada Holm built the mill of Torbeck in 1840."),
    ("Who built the mill?", "Ada Holm."),
    ("When was it built?", "In 1841."),
    ("When was it built?", "1840"),
    ("Did it burn?", "Yes, the mill burnt in 1871."),
    ("Did it burn?", "No."),
    ("How high is the mill of Odense?", "18.5 m"),
    ("How high is the mill of Odense?", "The mill of Odense is 21 m high."),
    ("What was done with it?", 'It was "sold to the town".'),
    ("What was done with it?", "It was “sold to a town” in 1871."),
    ("Who bought it?", "A rich widow from Vienna."),
    ("Who bought it?", "I don't know."),
    ("Who bought it?", ""),
)


def trace_entries(_: Path) -> Mapping[str, Any]:
    """How planted traces and awkward texts are read; which answers abstain or have a ground."""
    kinds: dict[str, list[Any]] = defaultdict(list)
    for one in planted_traces():
        kinds[one.kind].append(_parsed(parse_trace(one.text)))
    combined = ["".join(parts) for parts in product(_OPENINGS, _MIDDLES, _ENDS)]
    return {
        "planted": {kind: digest(traces) for kind, traces in kinds.items()},
        "awkward": {name: _outline(parse_trace(text)) for name, text in AWKWARD.items()},
        "awkward, whole": {
            name: digest([_parsed(parse_trace(text, labels)) for labels in (LABELS, VERDICTS)])
            for name, text in AWKWARD.items()
        },
        "written again": digest([write_trace(parse_trace(text)) for text in AWKWARD.values()]),
        "abstains": {answer[:60]: abstains(answer) for answer in ANSWERS},
        "abstains, combined": _bits(map(abstains, combined)),
        "grounded": {f"{question} {answer}": _grounds(question, answer)
                     for question, answer in QUESTIONED},
    }  # fmt: skip


def _bits(values: Iterator[bool]) -> str:
    """A digit for each truth value, in lines of the openings' length."""
    digits = "".join(str(int(value)) for value in values)
    width = len(_MIDDLES) * len(_ENDS)
    return " ".join(digits[start : start + width] for start in range(0, len(digits), width))


def _parsed(trace: Trace) -> list[Any]:
    """All of a trace, ready for a digest."""
    return [
        [[one.kind, one.text, one.start, one.end, one.closed] for one in trace.blocks],
        [[one.kind, one.start, one.end, one.detail] for one in trace.faults],
        trace.opening,
        [[one.question, one.answer, one.thought] for one in trace.cycles],
        trace.verdict,
    ]


def _outline(trace: Trace) -> str:
    """Verdict, number of cycles, and faults with their number, for readers."""
    faults = Counter(one.kind for one in trace.faults)
    counted = ", ".join(f"{kind} {number}" for kind, number in sorted(faults.items()))
    return f"{trace.verdict}, {len(trace.cycles)} cycles; {counted or 'no fault'}"


def _grounds(question: str, answer: str) -> list[Any]:
    """An answer's status, the sentences behind it, and its citations."""
    found = grounded_answer(question, answer, EVIDENCE)
    spans = [[list(one.evidence), list(one.answer or ())] for one in found.grounds]
    cited = [
        f"{one.match} {one.start}:{one.end} at {one.found_start}:{one.found_end}"
        for one in citations(answer, EVIDENCE)
    ]
    return [found.status, spans, list(sentences_behind(question, answer, EVIDENCE)), cited]


READINGS: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "strict": (
        *("--abstention", "part", "--grounding", "required"),
        *("--silence", "refutes", "--restating", "marked"),
    ),
    "unguarded": ("--abstention", "literal", "--necessity", "mean", "--atomicity", "strict"),
    "half labelled": ("--labelled-share", "0.5"),
    "policy votes": ("--labelled-share", "0", "--votes", "policy"),
    "weights": ("--weight", "diversity=0", "--weight", "joint=2.5", "--weight", "consistency=1"),
    "three-way": ("--three-way",),
}
_FAILURES = ("drop_group", "drop_rollout", "zero")


def reward_entries(folder: Path) -> Mapping[str, Any]:
    """The rewards of planted and awkward traces under each reading, by the rules as the judge.

    Then the same with a judge whose rulings are mixed up, some of them missing.
    """
    traces = folder / "traces.jsonl"
    traces.write_text("".join(_lines()), "utf-8")
    entries = {name: _scored(folder, *words) for name, words in READINGS.items()}
    _scored(folder)
    calls = pl.read_parquet(folder / "traces.judge_calls.parquet")
    entries["judge calls"] = table(calls)
    _mixed_up(calls).write_parquet(folder / "mixed.parquet")
    for name in _FAILURES:
        words = ("--judge-calls", "mixed.parquet", "--failures", name)
        entries[f"mixed rulings, {name}"] = _scored(folder, *words)
        if name == "zero":
            for reading in ("strict", "policy votes"):
                key = f"mixed rulings, {reading}"
                entries[key] = _scored(folder, *words, *READINGS[reading])
    return entries


def _lines() -> Iterator[str]:
    for one in planted_traces(claims=8):
        yield one.line() + "\n"
    claim = {
        "claim": "Ada Holm built the mill in 1840.",
        "evidence": EVIDENCE,
        "label": "Supported",
    }
    for number, (name, text) in enumerate(AWKWARD.items()):
        if name not in {"lone surrogate", "many opened"}:
            values = claim | {"trace": text, "n_star": 2, "group": "awkward", "rollout": number}
            yield pl.DataFrame([values]).write_ndjson()


def _scored(folder: Path, *words: str) -> dict[str, Any]:
    """What ``decomposerl score`` writes: of each reward its rows by digest, and its mean."""
    with plain_environment(DECOMPOSERL_DATA="data"):
        done = CliRunner().invoke(app, ["score", "traces.jsonl", "--allow-unreadable", *words])
    if done.exit_code:
        raise AssertionError(f"{words}: {done.stderr}")
    frame = pl.read_parquet(folder / "traces.rewards.parquet")
    return {
        str(name[0]): _reward(rows) for name, rows in frame.group_by("reward", maintain_order=True)
    }


def _reward(rows: pl.DataFrame) -> dict[str, Any]:
    """States and values; those of diversity depend on vectors, and so does the total."""
    near = {"diversity", "total"} & set(rows["reward"])
    kept = rows.drop("value") if near else rows.with_columns(pl.col("value").round(9))
    shown = {"rows": digest(kept.write_ndjson()), "mean": rows["value"].mean()}
    return shown | ({"values": rows["value"].gather_every(29).to_list()} if near else {})


_OTHER = {"Supported": "Refuted", "Refuted": "NotEnoughInfo", "NotEnoughInfo": "Supported"}


def _mixed_up(calls: pl.DataFrame) -> pl.DataFrame:
    """A third of the rulings is another one, and a few are missing, by the digits of their key."""

    def ruling(row: Mapping[str, Any]) -> dict[str, Any]:
        digit = int(row["call_key"][:4], 16)
        value = row["value"]
        if digit % 3 == 0:
            value = _OTHER.get(value) or "".join("10"[int(one)] for one in value)
        failed = digit % 41 == 0
        changed = {"value": None, "failure": "timeout"} if failed else {"value": value}
        return dict(row) | changed

    rows = [ruling(row) for row in calls.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=calls.schema)


WORDED = (
    "",
    "Supported",
    "supports.",
    "**Refuted**",
    "refutes the claim",
    "Not supported",
    "Not Enough Information",
    "It is neither supported nor refuted.",
    "Verdict: Supported",
    "The claim fails.\nVerdict: Refuted.",
    "So the final answer is: Supported",
    "[Refuted]",
    "1: True - it says so\n[Supported]",
    "Yes",
    "No, the mill is older.",
    "True.",
    "Unknown",
    "unknown, but probably 1840",
    "I don't know.",
    "NONE",
    "None of them.",
    "<answer>1</answer>",
    "<think>0?</think><answer>0</answer>",
    "<answer>1</answer> <answer>0</answer>",
    "<answer>Supported</answer>",
    "<answer>Not Enough Information</answer>",
    "<answer>YES, YES, NO, YES, YES</answer>",
    "is_question: YES\nsingle_focus: NO\nno_conjunctions: YES\nverifiable: YES\ngrounded: NO",
    '{"answer": "1"}',
    '{"answer": 0}',
    '{"answer": "supported"}',
    '{"questions": ["Who built it?", "When?"]}',
    "<questions><question>Who built it?</question><question>When?</question></questions>",
    "1. Who built the mill?\n2) When was it built?\n- Where is it?",
    "1. Did Ada Holm build it? | yes\n2. Did it burn? | no",
    "Follow up: Who built it?\nIntermediate answer: Ada Holm.",
    "[lookup] Who built it?",
    "[check] 21 m is more than 20 m",
    "1, 3 and 5",
    "Passages 2-4",
    "Q1: Who built it?\nSure: no\nA1: Ada Holm.\n\nVerdict: Refuted",
    "1. Built(Ada Holm, mill) | Ada Holm built the mill. | Who built the mill?",
    'fact_1 = Verify("Ada Holm built the mill.")\nlabel = Predict(fact_1)',
    '```python\nanswer_1 = Question("Who?")\nlabel = Predict(answer_1 and not fact_1)\n```',
    'Yes [["Yes", -0.05], ["No", -3.2]]',
    '▁no [["▁no", -0.5], ["Maybe", -1.0]]',
    _GOOD,
)


def reading_entries(folder: Path) -> Mapping[str, Any]:
    """What ``python -m studies.replies`` reads in awkward replies to each operation."""
    lines = [
        {"operation": name, "reply": reply, "expected": None, "truncated": cut, "claim_key": str(n)}
        for name in OPERATIONS
        for n, reply in enumerate(WORDED)
        for cut in (False, True)[: 1 + (n % 4 == 0)]
    ]
    (folder / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
    with redirect_stdout(StringIO()) as shown, redirect_stderr(StringIO()) as complaints:
        code = read_file([str(folder / "replies.jsonl"), "--misses", str(folder / "misses.jsonl")])
    read: dict[str, dict[str, Any]] = {name: {} for name in OPERATIONS}
    for line in (folder / "misses.jsonl").read_text("utf-8").splitlines():
        one = json.loads(line)
        got = json.dumps(one["got"], ensure_ascii=False)
        cut = " (cut)" * one["truncated"]
        read[one["operation"]][one["reply"][:40] + cut] = got if len(got) < 80 else digest(got)
    return {
        "code": code,
        "last line": shown.getvalue().splitlines()[-1],
        "complaints": digest(complaints.getvalue().replace(str(folder), "")),
        "read": {name: _briefly(values) for name, values in read.items()},
    }


def _briefly(values: Mapping[str, Any]) -> dict[str, Any]:
    """How many replies were read, what in whole ones, and a digest of all."""
    whole = [f"{reply!r}: {got}" for reply, got in values.items() if not reply.endswith(" (cut)")]
    return {"read": len(values), "whole": whole, "digest": digest(values)}


def reply_entries(_: Path) -> Mapping[str, Any]:
    """The shared replies of real models: by operation how many are read as expected, and how not.

    Raises:
        UnavailableError: the file is not on this machine.
    """
    if not REPLIES.exists():
        raise UnavailableError(f"{REPLIES.name} is not on this machine")
    with REPLIES.open("rb") as lines:
        replies, problems = read_replies(lines)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in replies:
        counts[one.row.operation][one.outcome] += 1
    return {
        "problems": len(problems),
        "replies": {name: sum(each.values()) for name, each in sorted(counts.items())},
        "as expected": {name: each["as expected"] for name, each in sorted(counts.items())},
        "silently wrong": {name: each["silently wrong"] for name, each in sorted(counts.items())},
    }
