"""``score``: traces in, the values of every reward out."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from decomposerl.api import RewardSettings, score_traces
from decomposerl.errors import SourceFileError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.schemas import JUDGE_CALLS
from decomposerl.schemas import REWARDS as REWARDS_TABLE
from environment import lacking
from metrics_parts import write
from planted_traces.planting import PlantedTrace, planted_traces

NAMES = [reward.name for reward in REWARDS if reward.weight]
FERRY = {
    "claim": "The Ilva ferry was designed by Oskar Lund.",
    "evidence": "Boats cross the Osk.",
}
LEAN = ("--weight", "diversity=0")  # no embedding model is loaded


def readings(*words: str) -> list[str]:
    return [part for word in words for part in ("--reading", word)]


def score(*words: object, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["score", *map(str, words)], input=text)


@pytest.fixture(scope="module")
def traces() -> tuple[PlantedTrace, ...]:
    return planted_traces(claims=4)


@pytest.fixture
def file(tmp_path: Path, traces: tuple[PlantedTrace, ...]) -> Path:
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(f"{trace.line()}\n" for trace in traces), "utf-8")
    return path


def rows(result: Result) -> list[dict[str, object]]:
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_every_trace_has_every_reward_and_a_total(file: Path, traces: tuple[PlantedTrace, ...]):
    """The table is printed and written, with the rulings behind it and the engines' names."""
    result = score(file, "--format", "json")
    table = rows(result)
    assert [(t.group, t.number) for t in traces] == [(r["group"], r["rollout"]) for r in table]
    for row in table:
        values = [row[name] for name in NAMES]
        assert None not in values
        assert sum(values) == pytest.approx(row["total"])  # type: ignore[arg-type]
    written = REWARDS_TABLE.conform(pl.read_parquet(file.with_suffix(".rewards.parquet")))
    totals = written.filter(reward="total")["value"].to_list()
    assert totals == [row["total"] for row in table]
    calls = JUDGE_CALLS.conform(pl.read_parquet(file.with_suffix(".judge_calls.parquet")))
    assert {"rule_judge:4"} == set(calls["engine"])
    assert [] == lacking(result.stderr, "judge=rule_judge:4", "minilm")


def test_python_gives_what_the_command_writes(file: Path, traces: tuple[PlantedTrace, ...]):
    """The same groups, totals and values from ``decomposerl.api``; a bad trace is an error."""
    records = [json.loads(trace.line()) for trace in traces]
    scored = score_traces(records, RewardSettings(weights={"diversity": 0}))
    for row, one in zip(rows(score(file, *LEAN, "--format", "json")), scored, strict=True):
        values = {name: reward["value"] for name, reward in one["rewards"].items()}  # type: ignore[attr-defined]
        shown = {"group": one["group"], "rollout": one["rollout"], "total": one["total"], **values}
        assert shown == {name: row[name] for name in shown}
    with pytest.raises(SourceFileError, match=r"row 1, field 'evidence': is missing; .*'trace'"):
        score_traces([records[0], {"claim": "It is old."}])


def test_python_reads_conversations_and_tables(traces: tuple[PlantedTrace, ...]):
    """Messages, numpy and pandas give what texts give; what pandas has for missing is missing."""
    pd = pytest.importorskip("pandas")
    settings = RewardSettings(weights={"diversity": 0})
    records = [json.loads(trace.line()) for trace in traces[:3]]
    known = score_traces(records, settings)
    roles = ("user", "assistant")
    turns = [[{"role": role, "content": one["trace"]} for role in roles] for one in records]
    talked = [one | {"trace": turn} for one, turn in zip(records, turns, strict=True)]
    talked[1]["trace"][1]["content"] = [{"type": "text", "text": records[1]["trace"]}]
    assert known == score_traces(talked, settings)
    arrays = [one | {"evidence": np.array([one["evidence"]])} for one in records]
    arrays[0]["n_star"] = np.int64(arrays[0]["n_star"])
    assert known == score_traces(arrays, settings)
    for table in (pd.DataFrame(records), pl.DataFrame(records)):
        assert known == score_traces(table, settings)  # type: ignore[arg-type]
    unlabelled = [{n: v for n, v in one.items() if n != "label"} for one in records]
    missing = pd.DataFrame(records).assign(label=[np.nan, None, pd.NA])
    assert score_traces(unlabelled, settings) == score_traces(missing, settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("lable", "label"), ("gold", "label"), ("Label", "label"), ("n_stars", "n_star")],
)
def test_a_misspelt_field_is_no_absent_one(name: str, meant: str, tmp_path: Path):
    """The line is left out, the field named; beside the one that it seems it is only unread."""
    line, out = FERRY | {"trace": "x", name: "Supported"}, tmp_path / "a.parquet"
    refused = score("-", *LEAN, "--out", out, text=json.dumps(line))
    assert 2 == refused.exit_code
    assert [] == lacking(refused.stderr, f"field '{name}'", f"'{meant}'")
    value: object = 2 if meant == "n_star" else "Refuted"
    beside = score("-", *LEAN, "--out", out, text=json.dumps(line | {meant: value}))
    assert (0, True) == (beside.exit_code, f"field '{name}': is not read" in beside.stderr)


def test_what_verify_writes_is_scored(tmp_path: Path):
    """``verify --json | score -``: its questions, answers, thoughts and verdict are the trace."""
    evidence = "Ada Brown was born in Odense. She won the national championship in 1937."
    claim = {"claim": "Ada Brown won in 1937.", "evidence": evidence}
    claims = write(tmp_path / "claims.jsonl", [claim])
    verified = CliRunner().invoke(app, ["verify", str(claims), "--json"]).stdout
    said = json.loads(verified)
    path = write(tmp_path / "verified.jsonl", [said | {"label": "Supported"}])
    result = score(path, *LEAN, "--format", "json")
    (row,) = rows(result)
    assert (said["verdict"], len(said["questions"])) == (row["verdict"], row["cycles"])
    assert (1.0, "is not read" in result.stderr) == (row["verification"], False)
    assert 1 == len(score_traces([said], RewardSettings(weights={"diversity": 0})))


def test_the_strict_readings_can_be_chosen(tmp_path: Path):
    """An honest abstention earns coverage and necessity by ``silence=refutes`` alone."""
    cycle = "<question>{}</question><answer>{}</answer><think>On.</think>"
    asked = cycle.format("Who designed the Ilva ferry?", "I don't know.")
    asked += cycle.format("What crosses the Osk?", "Boats cross the Osk.")
    trace = f"<think>Two.</think>{asked}<verification>Refuted</verification>"
    line = FERRY | {"trace": trace, "label": "Refuted"}
    path = write(tmp_path / "one.jsonl", [line])
    (plain,) = rows(score(path, *LEAN, "--format", "json"))
    (refuted,) = rows(score(path, *LEAN, *readings("silence=refutes"), "--format", "json"))
    assert (0.0, 0.0) == (plain["coverage"], plain["necessity"])
    assert (1.0, 0.5) == (refuted["coverage"], refuted["necessity"])
    others = readings("grounding=required", "restating=marked", "abstention=part")
    assert [plain] == rows(score(path, *LEAN, *others, "--format", "json"))


def test_a_third_verdict_is_read_where_it_is_offered(tmp_path: Path):
    """Label and verdict; it pays by an honest abstention about the open part, not by silence."""
    verdict = "<verification>Not Enough Information</verification>"
    asked = "<question>Who designed the Ilva ferry?</question><answer>I don't know.</answer>"
    given = [
        FERRY | {"label": "not enough information", "trace": f"<think>One.</think>{part}{verdict}"}
        for part in (f"{asked}<think>Open.</think>", "")
    ]
    path = write(tmp_path / "open.jsonl", given)
    refused = score(path, *LEAN)
    assert 2 == refused.exit_code
    assert "'not enough information' is neither Supported nor Refuted" in refused.stderr
    honest, silent = rows(score(path, *LEAN, "--three-way", "--format", "json"))
    assert "NotEnoughInfo" == honest["label"]
    assert [7 / 8, 1.0, 1.0] == [honest[name] for name in ("format", "verification", "coverage")]
    assert (1.0, 0.0) == (silent["verification"], silent["coverage"])
    settings = RewardSettings(weights={"diversity": 0})
    totals = [one["total"] for one in score_traces(given, settings, three_way=True)]
    assert [honest["total"], silent["total"]] == totals


def test_recorded_rulings_stand_in_for_the_judge(file: Path, tmp_path: Path):
    """The same numbers without a judge; other readings of the same rulings cost nothing."""
    first = rows(score(file, *LEAN, "--format", "json"))
    recorded = file.with_suffix(".judge_calls.parquet")
    words = (*LEAN, "--format", "json", "--judge-calls", recorded, "--out", tmp_path / "a.parquet")
    assert first == rows(score(file, *words))
    before = recorded.read_bytes()
    fewer = ("--weight", "joint=0", *readings("necessity=mean"))
    mean = rows(score(file, *LEAN, *fewer, "--format", "json", "--judge-calls", recorded))
    assert before == recorded.read_bytes(), "rulings are not written over"
    assert all(a["necessity"] <= b["necessity"] for a, b in zip(first, mean, strict=True))  # type: ignore[operator]
    assert first != mean
    other = {"claim": "Other.", "evidence": "Text."}
    other["trace"] = "<question>Q?</question><answer>A.</answer>"
    unknown = score("-", *LEAN, "--judge-calls", recorded, text=json.dumps(other))
    assert (2, True) == (unknown.exit_code, "no record of" in unknown.stderr)
    text = tmp_path / "text.parquet"
    text.write_text("no table", "utf-8")
    for wrong in (text, tmp_path / "a.parquet"):
        result = score(file, *LEAN, "--judge-calls", wrong)
        assert (2, True) == (result.exit_code, str(wrong) in result.stderr)


def test_what_is_switched_off_is_not_asked(file: Path):
    """Without the judged rewards no call is made; without labels verification is absent."""
    judged = ("coverage", "necessity", "joint")
    off = [word for name in judged for word in ("--weight", f"{name}=0")]
    result = score(file, *LEAN, *off, "--format", "json")
    assert "(0 distinct calls)" in result.stderr
    assert {"format", "verification", "question_count"} == rows(result)[0].keys() & set(NAMES)
    assert pl.read_parquet(file.with_suffix(".judge_calls.parquet")).is_empty()
    lines = [json.loads(line) | {"label": None} for line in file.read_text("utf-8").splitlines()]
    table = rows(score(write(file, lines), *LEAN, "--format", "json"))
    assert {(None, None)} == {(row["verification"], row["label"]) for row in table}
    assert None not in {row["total"] for row in table}
    assert {0.0, 1.0} == {row["coverage"] for row in table}, "agreement"


def test_traces_come_from_standard_input_too(tmp_path: Path):
    """'-' reads standard input; --out says where the table goes; an unknown field is no reject."""
    out = tmp_path / "deep" / "mine.parquet"
    line = '{"claim": "A b.", "evidence": "A.", "trace": "x", "other": 1}'
    result = score("-", *LEAN, "--out", out, text=line)
    assert 0 == result.exit_code, result.output
    assert 1 == pl.read_parquet(out).filter(reward="total").height
    assert "mean" in result.stdout
    assert "'other'" in result.stderr
    assert [] == list(tmp_path.rglob("*.jsonl"))


def test_unreadable_lines_end_with_exit_code_3_and_are_kept(tmp_path: Path):
    """What can be read is scored; the rest stands in the rejects file as it was, with reasons."""
    good = '{"claim": "Ada.", "evidence": "Ada.", "trace": "<think>x</think>"}'
    bad = (b'{"claim": 3, "evidence": "", "trace": "x"}', b"no json", b'{"claim": "\xff"}', b"[1]")
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"\n".join((good.encode(), *bad)))
    result = score(path, *LEAN)
    assert 3 == result.exit_code, result.output
    assert [] == lacking(result.stderr, "scored 1 of 5 lines", f"{path}, line 2, field 'claim'")
    rejects = (tmp_path / "traces.rejects.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in rejects]
    assert [2, 3, 4, 5] == [row["line"] for row in kept]
    assert list(bad) == [row["text"].encode("utf-8", "surrogateescape") for row in kept]
    assert ["claim", "evidence"] == [problem["field"] for problem in kept[0]["problems"]]
    assert 1 == pl.read_parquet(tmp_path / "traces.rewards.parquet").filter(reward="total").height
    path.write_text(good, "utf-8")
    assert 0 == score(path, *LEAN).exit_code
    assert not (tmp_path / "traces.rejects.jsonl").exists(), "no list of an earlier run"
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    assert 2 == score(tmp_path / "loop.jsonl", *LEAN).exit_code


def test_no_output_takes_the_place_of_an_input(tmp_path: Path):
    """Traces that were rejected once, and are scored into the same tables, stay as they are."""
    line = '{"claim": "A b.", "evidence": "A.", "trace": "x"}'
    given = tmp_path / "traces.rejects.jsonl"
    given.write_text(line, "utf-8")
    for out in (given.with_name("traces.rewards.parquet"), given):
        result = score(given, *LEAN, "--out", out)
        assert (2, True) == (result.exit_code, "would be overwritten" in result.stderr)
        assert line == given.read_text("utf-8")
