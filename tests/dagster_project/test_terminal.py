"""What a terminal is sent: text from outside never acts on it, whichever command prints it."""

import ast
import json
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.terminal import Terminal, print_columns, print_json, print_marked, print_note
from decomposerl.evaluation.leaderboard import RunCoverage, leaderboard
from decomposerl.printable import printable, printable_json
from fixture_data import FATES, build
from leaderboard_parts import SYSTEMS, score, scores
from project import ROOT
from resources.catalogue.database import build_catalogue
from resources.store.parquet import write_parquet
from strategies import LAW
from tables import cases_beside
from training_files import write_policy

EVIL = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2J\x9b31m\r\x08\x7f\x00[red]x[/red]"
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
    "\u200b\u200c\u2060\ufeff\u00ad\u3164\u2028\u2029\x85\x0b\x0c\U000e0041"
)
BAD = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def acting(text: str) -> set[str]:
    """The characters of a text that do something instead of showing."""
    return {one for one in text if unicodedata.category(one) in BAD and one not in "\n\t"}


ROWS = cases_beside(__file__, "attacks")
"""Files and command lines that carry the text into each command, in order."""
PLACES = {
    "{evil}": EVIL,
    "{value}": EVIL.replace("\x00", ""),  # of the environment
    "{name}": EVIL.replace("\x00", "").replace("/", ""),  # of a file
    "{json}": json.dumps(EVIL)[1:-1],
    "{long}": "x" * 300,
}


def filled(text: str, folder: Path, claim: str = "") -> str:
    """A text of the table with the attack in its places."""
    for place, value in (PLACES | {"{folder}": str(folder), "{claim}": claim}).items():
        text = text.replace(place, value)
    return text


def prepared(command: str, folder: Path) -> list[str]:
    """Put what a command needs into a folder; claims to ask about, of every fate."""
    if command in {"explain", "attrition"}:  # the fixture's texts hold escapes
        world, table = build(folder), folder / "drops/claims/hover.parquet"
        if command == "explain":
            return world.claims["claim_id"].to_list()[: len(FATES)]
        write_parquet(pl.read_parquet(table).with_columns(reason=pl.lit(f"odd{EVIL}")), table)
        build_catalogue(world.data)
    if command in {"leaderboard", "accept"}:
        home = folder if command == "leaderboard" else folder / PLACES["{name}"]
        home.mkdir(exist_ok=True)
        row = score("simple-qwen2.5-7b-faithful", "fever", 71.0, engine=f"qwen{EVIL}")
        board = leaderboard(scores((row,)), SYSTEMS, ["fever"], RunCoverage())
        write_parquet(board, home / "leaderboard.parquet")
    if command == "view":
        write_policy(folder)
    return [""]


def attacked(command: str, folder: Path) -> Iterator[Result]:
    """What a command prints under each attack of the table."""
    claims = prepared(command, folder)
    for row in (one for one in ROWS if one["command"] == command):
        for name, text in row.get("files", {}).items():
            path = Path(filled(f"{{folder}}/{name}", folder))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(filled(text, folder), "utf-8")
        env = {name: filled(value, folder) for name, value in row.get("env", {}).items()}
        for line in row["runs"]:
            for claim in claims if "{claim}" in line else [""]:
                words = [filled(word, folder, claim) for word in shlex.split(line)]
                yield CliRunner(env=env).invoke(app, words)


COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_lets_text_act(command: str, tmp_path: Path):
    """A new command needs an attack of its own in the table. No traceback either."""
    results = list(attacked(command, tmp_path))
    wrong = ([command, f"--{EVIL}"], [command, *[EVIL] * 4], [EVIL], [f"--{EVIL}"])
    for result in (*results, *(CliRunner().invoke(app, words) for words in wrong)):
        assert set() == acting(result.output), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
    escaped = ["\\x1b" in one.output or "\\u001b" in one.output for one in results]
    assert any(escaped), "the attack reaches the output"


@given(st.text(st.characters()))
@LAW
def test_what_shows_stays_and_the_rest_is_escaped(text: str):
    """Nothing acts; text that shows is unchanged; JSON reads back as it was."""
    assert set() == acting(printable(text)) | acting(printable_json([text, {text: text}]))
    assert printable(text) == printable(printable(text))
    assert [text, {text: text}] == json.loads(printable_json([text, {text: text}]))
    assert "\n" not in printable(text, keep="")


def test_text_of_any_language_stays_as_it_is():
    """Escapes, which are Python's, are for what does not show."""
    shown = "“Ösk” – 1,921 €|日本語　文|नमस्ते|é e\u0301|🇬🇧 ❤️|a\u00a0b".split("|")
    for text in ("", "plain", *shown):
        assert text == printable(text)
        assert json.dumps(text, ensure_ascii=False) == printable_json(text)
    for one in "\x1b\x9b\u202e\u2028\ud800\U000e0041\r\x7f":
        escape = one.encode("unicode_escape", "surrogatepass").decode()
        assert f"a{escape}b" == printable(f"a{one}b")


def test_every_way_to_print_escapes(capsys: pytest.CaptureFixture[str]):
    """Notes are one line, markup is text."""
    print_note(f"a\n{EVIL}")
    print_marked(f"✓ {EVIL}")
    print_json({EVIL: EVIL})
    print_columns(("a",), [(EVIL,)])
    Terminal(stderr=True).print(f"[bold]{EVIL}[/bold]", style="red")
    captured = capsys.readouterr()
    assert set() == acting(captured.out + captured.err)
    assert "a\\n\\x1b" in captured.err
    assert "[bold]" in captured.err


def test_only_one_module_prints():
    """All others print through ``dagster_project.terminal``, once its libraries are installed."""
    printing = {"print", "Console", "rich.print", "sys.stdout.write", "sys.stderr.write"}
    for path in sorted((ROOT / "dagster_project").glob("*.py")):
        if path.name in {"terminal.py", "installing.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in printing, (path.name, node.lineno)
                assert not called.endswith((".echo", ".secho")), (path.name, node.lineno)
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {"rich", "rich.console"}, (path.name, node.lineno)
