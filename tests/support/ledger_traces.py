"""The ledger's rows of traces: how they are read, what they are paid, what replies are read as."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import astuple
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.replies.abstention import abstains
from decomposerl.rewards.settings import is_labelled
from decomposerl.schemas import LABELS, VERDICTS
from decomposerl.traces.grammar import parse_trace, write_trace
from decomposerl.traces.grounding import grounded_answer, quotes, sentences_behind
from decomposerl.traces.trace import Trace, Verdict
from ledger import UnavailableError, digest, table
from ledger_inputs import INPUTS, call
from metrics_parts import write
from planted_traces.planting import planted_traces
from project import ROOT
from studies.replies import main as read_file
from studies.replies import read_replies
from studies.reply_operations import OPERATIONS

REPLIES = ROOT.parent / "shared/replies/replies.jsonl"
GIVEN = INPUTS["traces"]
EVIDENCE: str = GIVEN["evidence"]


def awkward() -> dict[str, str]:
    """Texts by name: a whole one, or what is replaced by what in the good trace."""
    texts: dict[str, str] = {}
    for name, given in GIVEN["awkward"].items():
        texts[name] = given if isinstance(given, str) else GIVEN["good"]
        for old, new in given if isinstance(given, list) else ():
            texts[name] = texts[name].replace(old, new)
    texts["many cycles"] = "<think>t</think>" + "<question>Q?</question><answer>A</answer>" * 200
    texts["many opened"] = "<think>" * 500
    return texts


def trace_entries(_: Path) -> Mapping[str, Any]:
    """How planted traces and awkward texts are read; which answers abstain or have a ground."""
    kinds: dict[str, list[Any]] = defaultdict(list)
    for one in planted_traces():
        kinds[one.kind].append(_parsed(one.text))
    texts = awkward()
    openings, middles, ends = GIVEN["answer parts"]
    return {
        "planted": {kind: digest(traces) for kind, traces in kinds.items()},
        "awkward": {name: _outline(parse_trace(text)) for name, text in texts.items()},
        "awkward, whole": {
            name: digest([_parsed(text), _parsed(text, VERDICTS)]) for name, text in texts.items()
        },
        "written again": digest([write_trace(parse_trace(text)) for text in texts.values()]),
        "abstains": {answer[:60]: abstains(answer) for answer in GIVEN["answers"]},
        # A word for each opening, a digit for each answer.
        "abstains, combined": " ".join(
            "".join(str(int(abstains(start + middle + end))) for middle in middles for end in ends)
            for start in openings
        ),
        "grounded": {f"{question} {answer}": _grounds(question, answer)
                     for question, answer in GIVEN["questioned"]},
    }  # fmt: skip


def _parsed(text: str, labels: tuple[Verdict, ...] = LABELS) -> tuple[object, ...]:
    """All that is read in a text but the labels that were given, ready for a digest."""
    return astuple(parse_trace(text, labels))[:-1]


def _outline(trace: Trace) -> str:
    """Verdict, number of cycles, and faults with their number, for readers."""
    faults = Counter(one.kind for one in trace.faults)
    counted = ", ".join(f"{kind} {number}" for kind, number in sorted(faults.items()))
    return f"{trace.verdict}, {len(trace.cycles)} cycles; {counted or 'no fault'}"


def _grounds(question: str, answer: str) -> list[Any]:
    """An answer's status, the sentences behind it, and its quotations."""
    status, found = grounded_answer(question, answer, EVIDENCE)
    spans = [[one.evidence, one.answer] for one in found]
    quoted = [
        f"{hit[1]} {start}:{end} at {hit[0][0]}:{hit[0][1]}" if hit else f"missing {start}:{end}"
        for (start, end), hit in quotes(answer, EVIDENCE)
    ]
    return [status, spans, sentences_behind(question, answer, EVIDENCE), quoted]


def reward_entries(folder: Path) -> Mapping[str, Any]:
    """The rewards of planted and awkward traces under each reading, by the rules as the judge.

    Then the same with a judge whose rulings are mixed up, some of them missing.
    """
    readings = GIVEN["scored"]
    shares = {"half labelled": 0.5, "policy votes": 0.0}
    entries = {
        name: _scored(folder, words, shares.get(name, 1.0)) for name, words in readings.items()
    }
    _scored(folder)  # the rulings of the default again
    calls = pl.read_parquet(folder / "traces.judge_calls.parquet")
    _mixed_up(calls).write_parquet(folder / "mixed.parquet")
    given = "--judge-calls mixed.parquet"
    mixed = {
        "drop_group": given,
        "strict": f"{given} {readings['strict']}",
        "policy votes": f"{given} {readings['policy votes']}",
    }
    entries |= {
        f"mixed rulings, {name}": _scored(folder, words, shares.get(name, 1.0))
        for name, words in mixed.items()
    }
    return entries | {"judge calls": table(calls)}


def _lines(share: float) -> Iterator[str]:
    """The planted traces, and the awkward ones of one claim, as ``score`` reads them.

    The claims of ``share`` keep their label.
    """
    for one in planted_traces(claims=8):
        label = one.label if is_labelled(one.claim, share) else None
        yield json.dumps(json.loads(one.line()) | {"label": label}) + "\n"
    claim = {
        "claim": "Ada Holm built the mill in 1840.",
        "evidence": EVIDENCE,
        "label": "Supported",
    }
    for number, (name, text) in enumerate(awkward().items()):
        if name not in {"lone surrogate", "many opened"}:
            values = claim | {"trace": text, "n_star": 2, "group": "awkward", "rollout": number}
            values |= {} if is_labelled(claim["claim"], share) else {"label": None}
            yield pl.DataFrame([values]).write_ndjson()


def _scored(folder: Path, words: str = "", share: float = 1.0) -> dict[str, Any]:
    """What ``decomposerl score`` writes: of each reward its rows by digest, and its mean."""
    (folder / "traces.jsonl").write_text("".join(_lines(share)), "utf-8")
    call(f"score traces.jsonl {words}", (0, 3))
    frame = pl.read_parquet(folder / "traces.rewards.parquet")
    return {
        str(name): _reward(rows) for (name,), rows in frame.group_by("reward", maintain_order=True)
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

    def ruling(row: dict[str, Any]) -> dict[str, Any]:
        digit, value = int(row["call_key"][:4], 16), row["value"]
        if digit % 41 == 0:
            return row | {"value": None, "failure": "timeout"}
        if digit % 3 == 0:
            value = _OTHER.get(value) or "".join("10"[int(one)] for one in value)
        return row | {"value": value}

    rows = [ruling(row) for row in calls.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=calls.schema)


def reading_entries(folder: Path) -> Mapping[str, Any]:
    """What ``python -m studies.replies`` reads in awkward replies to each operation."""
    lines = [
        {"operation": name, "reply": reply, "expected": None, "truncated": cut, "claim_key": str(n)}
        for name in OPERATIONS
        for n, reply in enumerate([*GIVEN["replies"], GIVEN["good"]])
        for cut in (False, True)[: 1 + (n % 4 == 0)]
    ]
    write(folder / "replies.jsonl", lines)
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
        counts[one.row.operation].update(["replies", one.outcome])
    return {"problems": len(problems)} | {
        outcome: {name: each[outcome] for name, each in counts.items()}
        for outcome in ("replies", "as expected", "silently wrong")
    }
