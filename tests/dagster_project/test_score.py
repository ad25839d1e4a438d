"""``decomposerl score``: any traces in, the reward table out, each fault named."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from decomposerl.api import RewardSettings, score_traces
from decomposerl.errors import SourceFileError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.schemas import JUDGE_CALLS
from decomposerl.schemas import REWARDS as REWARDS_TABLE
from planted_traces.planting import PlantedTrace, planted_traces

NAMES = [reward.name for reward in REWARDS if reward.weight]
LEAN = ("--weight", "diversity=0")  # no embedding model is loaded


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
    assert {"rule_judge:3"} == set(calls["engine"])
    assert "judge=rule_judge:3" in result.stderr
    assert "minilm" in result.stderr


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


def test_the_strict_readings_are_options(tmp_path: Path):
    """An honest abstention earns coverage and necessity by ``--silence refutes`` alone."""
    cycle = "<question>{}</question><answer>{}</answer><think>On.</think>"
    asked = cycle.format("Who designed the Ilva ferry?", "I don't know.") + cycle.format(
        "What crosses the Osk?", "Boats cross the Osk."
    )
    line = {
        "claim": "The Ilva ferry was designed by Oskar Lund.",
        "evidence": "Boats cross the Osk.",
        "trace": f"<think>Two.</think>{asked}<verification>Refuted</verification>",
        "label": "Refuted",
    }
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(line), "utf-8")
    (plain,) = rows(score(path, *LEAN, "--format", "json"))
    (refuted,) = rows(score(path, *LEAN, "--silence", "refutes", "--format", "json"))
    assert (0.0, 0.0) == (plain["coverage"], plain["necessity"])
    assert (1.0, 0.5) == (refuted["coverage"], refuted["necessity"])
    others = ("--grounding", "required", "--restating", "marked", "--abstention", "part")
    assert [plain] == rows(score(path, *LEAN, *others, "--format", "json"))


def test_a_third_verdict_is_read_where_it_is_offered(tmp_path: Path):
    """Label and verdict; it pays by an honest abstention about the open part, not by silence."""
    verdict = "<verification>Not Enough Information</verification>"
    line = {
        "claim": "The Ilva ferry was designed by Oskar Lund.",
        "evidence": "Boats cross the Osk.",
        "label": "not enough information",
    }
    asked = "<question>Who designed the Ilva ferry?</question><answer>I don't know.</answer>"
    traces = [
        f"<think>One.</think>{part}{verdict}" for part in (f"{asked}<think>Open.</think>", "")
    ]
    path = tmp_path / "open.jsonl"
    path.write_text("".join(json.dumps(line | {"trace": one}) + "\n" for one in traces), "utf-8")
    refused = score(path, *LEAN)
    assert 2 == refused.exit_code
    assert "'not enough information' is neither Supported nor Refuted" in refused.stderr
    honest, silent = rows(score(path, *LEAN, "--three-way", "--format", "json"))
    assert "NotEnoughInfo" == honest["label"]
    assert [7 / 8, 1.0, 1.0] == [honest[name] for name in ("format", "verification", "coverage")]
    assert (1.0, 0.0) == (silent["verification"], silent["coverage"])
    given = [line | {"trace": one} for one in traces]
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
    fewer = ("--weight", "joint=0", "--necessity", "mean")
    mean = rows(score(file, *LEAN, *fewer, "--format", "json", "--judge-calls", recorded))
    assert before == recorded.read_bytes(), "rulings are not written over"
    assert all(a["necessity"] <= b["necessity"] for a, b in zip(first, mean, strict=True))  # type: ignore[operator]
    assert first != mean
    (tmp_path / "none.jsonl").write_text(
        json.dumps(
            {"claim": "Other.", "evidence": "Text.", "trace": "<question>Q?</question>"}
        ).replace("Q?</question>", "Q?</question><answer>A.</answer>")
    )
    unknown = score(tmp_path / "none.jsonl", *LEAN, "--judge-calls", recorded)
    assert 2 == unknown.exit_code
    assert "no record of" in unknown.stderr


def test_a_table_that_holds_no_rulings_is_refused(file: Path):
    """Text, and a table of another kind, are named; no traceback."""
    rewards = file.with_suffix(".rewards.parquet")
    assert 0 == score(file, *LEAN).exit_code
    text = file.with_suffix(".parquet")
    text.write_text("no table", "utf-8")
    for wrong in (text, rewards):
        result = score(file, *LEAN, "--judge-calls", wrong)
        assert 2 == result.exit_code
        assert f"{wrong} is no table of rulings" in result.stderr


def test_what_is_switched_off_is_not_asked(file: Path):
    """Without the judged rewards no call is made, and none is in the table."""
    off = [
        word for name in ("coverage", "necessity", "joint") for word in ("--weight", f"{name}=0")
    ]
    result = score(file, *LEAN, *off, "--format", "json")
    assert "(0 distinct calls)" in result.stderr
    assert {"format", "verification", "question_count"} == rows(result)[0].keys() & set(NAMES)
    assert pl.read_parquet(file.with_suffix(".judge_calls.parquet")).is_empty()


def test_without_labels_verification_is_absent(file: Path):
    """A labelled share of 0 takes every label; coverage is agreement, and the sum goes on."""
    table = rows(score(file, *LEAN, "--labelled-share", "0", "--format", "json"))
    assert {None} == {row["verification"] for row in table}
    assert {None} == {row["label"] for row in table}
    assert None not in {row["total"] for row in table}
    assert {0.0, 1.0} == {row["coverage"] for row in table}


def test_a_bad_line_is_named_and_the_rest_is_scored(file: Path, traces: tuple[PlantedTrace, ...]):
    """File, line and field stand on standard error; nothing else is lost."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"claim": "c", "evidence": 3, "trace": ""}\n')
    assert 3 == score(file, *LEAN).exit_code
    result = score(file, *LEAN, "--format", "json", "--allow-unreadable")
    assert len(traces) == len(rows(result))
    assert f"{file}, line {len(traces) + 1}, field 'evidence'" in result.stderr
    assert f"scored {len(traces)} of {len(traces) + 1} lines" in result.stderr


def test_traces_come_from_standard_input_too(traces: tuple[PlantedTrace, ...], tmp_path: Path):
    """'-' reads standard input; --out says where the table goes."""
    out = tmp_path / "deep" / "mine.parquet"
    result = score("-", *LEAN, "--out", out, text=traces[0].line())
    assert 0 == result.exit_code, result.output
    assert 1 == pl.read_parquet(out).filter(reward="total").height
    assert "mean" in result.stdout


def test_questions_are_shown_with_what_they_earned(file: Path, traces: tuple[PlantedTrace, ...]):
    """Each question stands with its values and states, each fault of form with its place."""
    result = score(file, *LEAN, "--questions")
    for word in (
        ", necessary",
        "answered: answerable 1 x",
        "abstained: ",
        "form lacks:",
        "at chara",
    ):
        assert word in result.stdout, word
    assert traces[0].claim[:60] in result.stdout


def test_quotations_are_located_in_the_evidence(tmp_path: Path):
    """What an answer quotes is found at its place, or nowhere."""
    path = tmp_path / "one.jsonl"
    answer = 'It says "built in 1857 by Ada Moss" and "sold in the spring".'
    trace = f"<question>When was it built?</question><answer>{answer}</answer>"
    evidence = "The mill was built in 1857 by Ada Moss."
    path.write_text(json.dumps({"claim": "It is old.", "evidence": evidence, "trace": trace}))
    output = score(path, *LEAN, "--questions").stdout
    start = evidence.index("built")
    assert f"quotes built in 1857 by Ada Moss: exact at characters {start}..38" in output
    assert "quotes sold in the spring: nowhere in the evidence" in output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--weight", "necesity=1"], "no reward 'necesity'; the names are format, verification"),
        (["--weight", "joint"], "it must be NAME=NUMBER, such as diversity=0"),
        (["--weight", "joint=nan"], "must be a finite number"),
        (["--labelled-share", "1.5"], "must be between 0 and 1"),
        (["--three-way", "--silence", "refutes"], "--three-way has a verdict for it; choose one"),
        (["--judge-calls", "nowhere.parquet"], "nowhere.parquet"),
        (["--necessity", "max"], "'max' is not one of 'min', 'mean'"),
    ],
)
def test_wrong_options_end_with_one_sentence(file: Path, words: list[str], said: str):
    """Exit code 2, what is wrong and what would be right, no traceback, nothing written."""
    result = score(file, *words)
    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr
    assert not file.with_suffix(".rewards.parquet").exists()


def test_a_place_that_cannot_be_written_is_named(file: Path):
    """One sentence; the rulings that were paid for are stored by their judge."""
    result = score(file, *LEAN, "--out", "/proc/none/rewards.parquet")
    assert 2 == result.exit_code
    assert "/proc/none/rewards.parquet cannot be written" in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"", "holds no trace that can be scored"),
        (b"no json\n", "line 1"),
        (b'{"claim": "a"}\n\xff\n', "line 2: not UTF-8 text"),
    ],
    ids=["absent", "empty", "no json", "no text"],
)
def test_a_file_without_traces_is_explained(tmp_path: Path, content: bytes | None, said: str):
    """The sentence names the file and, where there is one, the line."""
    path = tmp_path / "given.jsonl"
    if content is not None:
        path.write_bytes(content)
    result = score(path, *LEAN)
    assert 2 == result.exit_code
    assert said in result.stderr
    assert str(path) in result.stderr


def test_unreadable_lines_end_with_exit_code_3_and_are_kept(tmp_path: Path):
    """What can be read is scored; the rest stands in the rejects file as it was, with reasons."""
    good = '{"claim": "Ada.", "evidence": "Ada.", "trace": "<think>x</think>"}'
    bad = (b'{"claim": 3, "evidence": "", "trace": "x"}', b"no json", b'{"claim": "\xff"}', b"[1]")
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"\n".join((good.encode(), *bad)))
    result = score(path, *LEAN)
    assert 3 == result.exit_code, result.output
    assert "scored 1 of 5 lines" in result.stderr
    rejects = (tmp_path / "traces.rejects.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in rejects]
    assert [2, 3, 4, 5] == [row["line"] for row in kept]
    assert list(bad) == [row["text"].encode("utf-8", "surrogateescape") for row in kept]
    assert ["claim", "evidence"] == [problem["field"] for problem in kept[0]["problems"]]
    assert 1 == pl.read_parquet(tmp_path / "traces.rewards.parquet").filter(reward="total").height
    assert 0 == score(path, *LEAN, "--allow-unreadable").exit_code
    path.write_text(good, "utf-8")
    assert 0 == score(path, *LEAN).exit_code
    assert not (tmp_path / "traces.rejects.jsonl").exists(), "no list of an earlier run"


def test_an_unknown_field_is_no_reject(tmp_path: Path):
    """It costs nothing: exit code 0, no rejects file."""
    path = tmp_path / "traces.jsonl"
    path.write_text('{"claim": "A b.", "evidence": "A.", "trace": "x", "other": 1}', "utf-8")
    result = score(path, *LEAN)
    assert 0 == result.exit_code, result.output
    assert "field 'other': is not read" in result.stderr
    assert [path] == list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("out", ["traces.rejects.jsonl", "../traces.rejects.jsonl"])
def test_no_output_takes_the_place_of_an_input(tmp_path: Path, out: str):
    """Traces that were rejected once, and are scored into the same tables, stay as they are."""
    path = tmp_path / "a" / "traces.rejects.jsonl"
    path.parent.mkdir()
    path.write_text('{"claim": "A b.", "evidence": "A.", "trace": "x"}', "utf-8")
    before = path.read_bytes()
    given = path.parent / out if out.startswith(".") else path
    given.write_bytes(before)
    target = given.with_name("traces.rewards.parquet")
    for words in (("--out", target), ("--out", given)):
        result = score(given, *LEAN, *words)
        assert 2 == result.exit_code
        assert "would be overwritten" in result.stderr
        assert before == given.read_bytes()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("trace", "ü" * 128_001, "is 256,002 bytes long; at most 256,000 are scored"),
        ("trace", "<question>" * 1_001, "holds 1,001 questions; at most 1,000 are scored"),
        ("claim", "a" * 16_001, "is 16,001 bytes long"),
        ("evidence", "a" * 2_000_001, "is 2,000,001 bytes long"),
        ("evidence", ["a" * 1_000_000] * 2, "is 2,000,001 bytes long"),
    ],
)
def test_a_row_of_an_impossible_size_is_a_reject(
    tmp_path: Path, name: str, text: object, said: str
):
    """It is named with its size, and the others are scored."""
    good = {"claim": "Ada.", "evidence": "Ada.", "trace": "x"}
    path = tmp_path / "traces.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(good | {name: text})}\n", "utf-8")
    result = score(path, *LEAN)
    assert 3 == result.exit_code, result.output
    assert f"line 2, field '{name}': {said}" in result.stderr


def test_many_questions_on_much_evidence_are_a_reject(tmp_path: Path):
    """Each question reads all of the evidence, so both together have a limit."""
    good = {"claim": "Ada.", "evidence": "Ada.", "trace": "x"}
    large = good | {"evidence": "a" * 1_000_000, "trace": "<question>" * 201}
    path = tmp_path / "traces.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(large)}\n", "utf-8")
    result = score(path, *LEAN)
    assert 3 == result.exit_code, result.output
    said = "asks 201 questions of 1,000,000 bytes of evidence; at most 200 are scored"
    assert f"line 2, field 'trace': {said}" in result.stderr


def test_a_link_to_itself_is_one_sentence(tmp_path: Path):
    """The file is named; there is no traceback."""
    (tmp_path / "traces.jsonl").symlink_to("traces.jsonl")
    result = score(tmp_path / "traces.jsonl", *LEAN)
    assert 2 == result.exit_code
    assert "traces.jsonl cannot be read" in result.stderr
