"""No command lets text from outside act on a terminal, whichever way that text comes in."""

import ast
import json
import logging
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from fixture_data import build
from hypothesis import given
from hypothesis import strategies as st
from leaderboard_parts import SYSTEMS, score, scores
from strategies import LAW
from test_cli import local_hub
from test_generic_source import bridge_corpus, materialize, page_lines, write_jsonl
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.last_word import Printable
from decomposerl.evaluation.leaderboard import Runs, leaderboard
from decomposerl.printable import printable, printable_json
from resources.duckdb_catalogue import build_catalogue
from resources.tables import write_parquet

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\u202e\u2066\x9b31m\u200b\u3164\x85\r\u2028[red]x"
FORMATS = ("text", "markdown", "csv", "json")
PRINTERS = {"print", "echo", "secho", "Console", "writelines"}
ANY = -1
Lines = list[tuple[int, tuple[str, ...]]]
"""Exit codes (``ANY`` where the machine decides) with command lines."""


def explained(folder: Path) -> Lines:
    """A claim, its label and the one it matches; an id that is none."""
    world = hostile_world(folder)
    at = ("--data", str(folder))
    lines: Lines = [(2, ("explain", HOSTILE, *at)), (2, ("explain", "abcdef", *at))]
    for claim in world.values():
        lines += [(0, ("explain", claim, *at)), (0, ("explain", claim, "--json", *at))]
    return lines


def attrition(folder: Path) -> Lines:
    """Sources and reasons of the tables, in every format."""
    hostile_world(folder)
    words = ("attrition", "--data", str(folder), "--format")
    asked: Lines = [(0, (*words, form)) for form in FORMATS]
    return [*asked, *((0, (*words, form, "--by-reason")) for form in FORMATS)]


def sources(folder: Path) -> Lines:
    """A corpus of somebody else's source.toml; a folder of an odd name."""
    place = folder / "corp\u202e\x1b[2Jora" / "mine"
    place.mkdir(parents=True)
    toml = (
        '[source]\nname = "mine"\nlicense = {0}\nterms = {0}\ntitle = {0}\n[files]\n'
        'train = ["mine/a.jsonl"]\n[columns]\nclaim = "claim"\nevidence = "text"\n'
        'label = "label"\n[evidence]\n[labels]\nsupported = [true]\nrefuted = [false]\n'
    ).format(json.dumps(HOSTILE))
    (place / "source.toml").write_text(toml, "utf-8")
    return [(0, ("sources",)), (0, ("sources", "--json"))]


def fetch(folder: Path) -> Lines:
    """A corpus, a revision and a hub that are none; a folder of an odd name."""
    corpora = ("--corpora", str(folder / "c\u202e\x1b[2J"))
    elsewhere = ("--corpora", str(folder / "elsewhere"))
    hub = ("--endpoint", local_hub(folder / "hub"))
    return [
        (2, ("fetch", HOSTILE, *corpora)),
        (0, ("fetch", "llm_aggrefact", *corpora, *hub)),
        (2, ("fetch", "llm_aggrefact", *corpora, *hub, "--revision", HOSTILE)),
        (2, ("fetch", "llm_aggrefact", *elsewhere, "--endpoint", f"file:///{HOSTILE}")),
    ]


def doctor(folder: Path) -> Lines:
    """An experiment that is none, a data folder of an odd name."""
    data = ("--data", str(folder / "d\u202e\x1b[2J"))
    return [
        (2, ("doctor", "--experiment", HOSTILE, *data)),
        (ANY, ("doctor", *data)),
        (ANY, ("doctor", "--json", *data)),
    ]


def scored(folder: Path) -> Lines:
    """Claims, labels, fields and names of a trace file, read and not read."""
    row = {"claim": HOSTILE, "evidence": HOSTILE, "trace": f"<think>{HOSTILE}</think>"}
    odd = [
        row,
        row | {HOSTILE: 1},
        row | {"label": HOSTILE},
        row | {"group": HOSTILE},
        {HOSTILE: 2},
    ]
    file = folder / "tra\u202e\x1b[2Jces.jsonl"
    file.write_text("\n".join(map(json.dumps, odd)), "utf-8")
    words = ("score", str(file), "--weight", "diversity=0")
    lines: Lines = [(3, (*words, "--format", form)) for form in FORMATS]
    lines += [(3, (*words, "--questions")), (2, (*words, "--weight", f"{HOSTILE}=1"))]
    return [*lines, (2, ("score", str(folder / HOSTILE.replace("/", ""))))]


def metrics(folder: Path) -> Lines:
    """Groups, labels, verdicts and fields; options that are none."""
    rows = [
        {"id": n, "label": n % 2, "v": HOSTILE if n == 3 else str(n % 2), "g": f"{HOSTILE}{n // 2}"}
        for n in range(8)
    ]
    file, odd = folder / "rows\u202e.jsonl", folder / "odd.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    odd.write_text(json.dumps({"id": HOSTILE, "label": HOSTILE, "v": 1}), "utf-8")
    words = ("metrics", str(file), str(file), "--draws", "20", "--verdict", "v")
    return [
        (0, (*words, "--group", "g")),
        (0, (*words, "--group", "g", "--json")),
        (2, (*words, "--group", HOSTILE)),
        (2, (*words, "--where", f"g={HOSTILE}x")),
        (2, (*words, "--unread", HOSTILE)),
        (2, ("metrics", str(odd), str(odd), "--verdict", "v")),
    ]


def board(folder: Path) -> Lines:
    """Engines of a leaderboard: names of models that anybody may serve."""
    write_board(folder)
    words = ("leaderboard", "--data", str(folder))
    asked: Lines = [(0, (*words, "--format", form)) for form in FORMATS]
    return [*asked, (0, (*words, "--all")), (2, ("leaderboard", "--data", str(folder / HOSTILE)))]


def accept(folder: Path) -> Lines:
    """A note, a system that is none, and what is accepted."""
    write_board(folder)
    words = ("accept", "--data", str(folder))
    return [
        (0, (*words, "--note", HOSTILE)),
        (2, (*words, "--system", HOSTILE)),
        (0, ("leaderboard", "--data", str(folder))),
    ]


COMMANDS: dict[str, Callable[[Path], Lines]] = {
    "explain": explained,
    "attrition": attrition,
    "sources": sources,
    "fetch": fetch,
    "doctor": doctor,
    "score": scored,
    "metrics": metrics,
    "leaderboard": board,
    "accept": accept,
}


def hostile_world(folder: Path) -> dict[str, str]:
    """Tables in which every text is hostile; ids of claims by their fate."""
    world = build(folder)
    for path in folder.rglob("*.parquet"):
        frame = pl.read_parquet(path)
        odd = [n for n in ("claim", "native_label", "subset", "reason") if n in frame.columns]
        frame.with_columns(pl.col(odd).cast(pl.String()) + pl.lit(HOSTILE)).write_parquet(path)
    build_catalogue(folder)
    return {fate.reason: claim for claim, fate in world.fates.items()}


def write_board(folder: Path) -> None:
    path = folder / "leaderboard.parquet"
    row = score("decomposerl-tiny", "fever", 70.0, engine=HOSTILE)
    write_parquet(leaderboard(scores([row]), SYSTEMS, ["fever"], Runs()), path)


def test_every_command_is_tried():
    """A new command needs a line here."""
    names = {one.name or one.callback.__name__ for one in app.registered_commands if one.callback}
    assert set(COMMANDS) == names


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_is_text_alone(name: str, tmp_path: Path):
    """On standard output and standard error: printable characters and line ends."""
    corpora = tmp_path / "corp\u202e\x1b[2Jora"
    for code, words in COMMANDS[name](tmp_path):
        env = {"DECOMPOSERL_CORPORA": str(corpora)} if name == "sources" else {}
        done = CliRunner(env=env).invoke(app, list(words))
        assert code in {done.exit_code, ANY}, (words, done.output)
        assert done.stdout + done.stderr
        for shown in (done.stdout, done.stderr):
            assert shown == printable(shown), words


def test_nothing_else_of_the_package_prints():
    """Every print goes through ``terminal``, or ``last_word`` at the end of a run."""
    doors = {"terminal.py", "last_word.py"}
    for path in sorted((ROOT / "dagster_project").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and path.name not in doors:
                assert not prints(node.func), f"{path}:{node.lineno}"


def prints(called: ast.expr) -> bool:
    """A bare printing function, one of typer's or rich's, or a stream's ``write``."""
    if isinstance(called, ast.Name):
        return called.id in PRINTERS
    if not isinstance(called, ast.Attribute):
        return False
    streams = {"sys.stdout", "sys.stderr"}
    if called.attr in {"write", "writelines"}:
        return ast.unparse(called.value) in streams
    return called.attr in PRINTERS and ast.unparse(called.value) in {"typer", "click", "rich"}


def test_a_line_of_dagsters_log_is_text_alone():
    """Message, arguments and a trace; the record, which is stored too, stays as it was."""
    inner = logging.Formatter("\x1b[32m%(levelname)s\x1b[0m %(message)s")
    error = ValueError(HOSTILE)
    record = logging.LogRecord(
        "dagster", logging.WARNING, "", 0, "%s\nend", (HOSTILE,), (ValueError, error, None)
    )
    shown = Printable(inner).format(record)
    colours, line = shown[: len("\x1b[32mWARNING\x1b[0m ")], shown[len("\x1b[32mWARNING\x1b[0m ") :]
    assert colours == "\x1b[32mWARNING\x1b[0m "
    assert line == f"{printable(HOSTILE)}\nend\nValueError: {printable(HOSTILE)}"
    assert (HOSTILE,) == record.args
    assert record.exc_text is None


def test_names_from_a_corpus_are_printable_in_dagsters_own_lines(tmp_path: Path):
    """A warning on rejects repeats file and column as the corpus' author named them."""
    bridge_corpus(tmp_path / "corpora")
    folder, odd = tmp_path / "corpora/bridge_notes", "x\x1b]0;t\x07\u202e"
    page = (folder / "source.toml").read_text("utf-8")
    shown = json.dumps(odd).strip('"')
    page = page.replace("train.jsonl", f"{shown}.jsonl").replace('"statement"', f'"{shown}"')
    (folder / "source.toml").write_text(page, "utf-8")
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text("utf-8").splitlines()]
    rows = [{**row, odd: row["statement"] if n else 3} for n, row in enumerate(rows[:-1])]
    write_jsonl(folder / f"{odd}.jsonl", rows)
    done = materialize(page_lines()[0], tmp_path)
    told = done.stderr + done.stdout
    assert done.returncode == 0, told[-3000:]
    assert r"bridge_notes/x\x1b]0;t\x07\u202e.jsonl:1 x\x1b]0;t\x07\u202e" in told
    assert not any(raw in told for raw in ("\x1b]", "\x07", "\u202e"))


@LAW
@given(st.text(st.characters(exclude_categories=[])))
def test_printable_text_shows_and_stays(text: str):
    """Of any text, halves of pairs included: encodable, without controls, and unchanged twice."""
    shown = printable(text)
    shown.encode("utf-8")
    assert shown == printable(shown)
    assert all(one.isprintable() or one.isspace() for one in shown)
    assert not {"\x1b", "\x9b", "\u202e", "\u2028", "\x85", "\r"} & set(shown)


@LAW
@given(st.recursive(st.text(st.characters(exclude_categories=[])), st.lists))
def test_json_reads_back(value: object):
    """Nothing is lost by what is escaped."""
    shown = printable_json(value)
    shown.encode("utf-8")
    assert value == json.loads(shown)
    assert shown == printable(shown)
