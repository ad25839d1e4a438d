"""What a terminal is sent: text from outside never acts on it, whichever command prints it."""

import ast
import json
import unicodedata
from collections.abc import Callable, Iterator
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
from training_files import write_policy

EVIL = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2J\x9b31m\r\x08\x7f\x00[red]x[/red]"
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
    "\u200b\u200c\u2060\ufeff\u00ad\u3164\u2028\u2029\x85\x0b\x0c\U000e0041"
)
IN_A_NAME = EVIL.replace("\x00", "").replace("/", "")  # of a file
IN_A_VALUE = EVIL.replace("\x00", "")  # of the environment
BAD = {"Cc", "Cf", "Cs", "Zl", "Zp"}
Words = tuple[str, ...]


def acting(text: str) -> set[str]:
    """The characters of a text that do something instead of showing."""
    return {one for one in text if unicodedata.category(one) in BAD and one not in "\n\t"}


def run(words: Words, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(app, list(words))


def _score(folder: Path) -> Iterator[Result]:
    """Claims, labels, field and file names; standard input; an option's value; a table's path."""
    good = {"claim": f"A {EVIL}", "evidence": f"“a b c” {EVIL}", "group": EVIL.strip() or "x"}
    trace = f'<question>Q{EVIL}?</question><answer>"d e {EVIL} f" <THINK {EVIL}></answer>'
    bad = {"claim": "A b.", "evidence": [3], "trace": "", "label": EVIL, "n_star": EVIL, EVIL: 1}
    path = folder / f"traces{IN_A_NAME}.jsonl"
    rows = (good | {"trace": trace + EVIL}, bad, {"claim": EVIL})
    path.write_text("\n".join([*map(json.dumps, rows), f"no json {EVIL}"]), "utf-8")
    lean = ("score", str(path), "--weight", "diversity=0")
    for form in ("text", "markdown", "csv", "json"):
        yield run((*lean, "--format", form, "--questions"))
    yield run((*lean, "--weight", f"{EVIL}=1"))
    yield run((*lean, "--weight", EVIL))
    yield run((*lean, "--judge-calls", str(folder / IN_A_NAME)))
    yield run((*lean, "--out", str(folder / "no" / f"{'x' * 300}{IN_A_NAME}")))
    yield run(("score", str(folder / f"absent{IN_A_NAME}")))


def _serve_rewards(folder: Path) -> Iterator[Result]:
    """A weight, a host and a table's path; each is refused before anything is served."""
    serve = ("serve-rewards", "--port", "0")
    yield run((*serve, "--weight", f"{EVIL}=1"))
    yield run((*serve, "--host", EVIL))
    yield run((*serve, "--judge-calls", str(folder / IN_A_NAME)))


def _metrics(folder: Path) -> Iterator[Result]:
    """Groups, ids, labels, field names, file names."""
    rows = [
        {"id": f"{n}{EVIL}", "label": n % 2, "v": n % 2, f"g{EVIL}": f"{n}{EVIL}"} for n in (0, 1)
    ]
    path = folder / f"rows{IN_A_NAME}.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    words = ("metrics", str(path), str(path), "--verdict", "v", "--draws", "10")
    yield run((*words, "--group", f"g{EVIL}"))
    yield run((*words, "--group", f"g{EVIL}", "--json"))
    yield run((*words, "--where", f"g{EVIL}=none"))
    yield run((*words, "--group", EVIL))
    yield run((*words, "--label", f"g{EVIL}"))
    yield run(("metrics", str(folder / IN_A_NAME), str(path), "--verdict", "v"))
    plain = {"claim_id": "c", "system": EVIL, "mark": "agree", "at": "1"}
    marks = [plain | {"reviewer": f"{n}{EVIL}"} for n in (0, 1)]
    path.write_text("\n".join(map(json.dumps, marks)), "utf-8")
    yield run(("metrics", "--marks", str(path)))
    yield run(("metrics", "--marks", str(path), "--json"))
    path.write_text(json.dumps(plain | {"reviewer": "a", "mark": EVIL}), "utf-8")
    yield run(("metrics", "--marks", str(path)))


def _explain(folder: Path) -> Iterator[Result]:
    """Claims and evidence of every fate (the fixture's hold escapes), an id, a folder."""
    world = build(folder)
    for claim in world.claims["claim_id"].to_list()[: len(FATES)]:
        yield run(("explain", claim, "--data", str(folder)))
    yield run(("explain", claim, "--data", str(folder), "--json"))
    yield run(("explain", EVIL, "--data", str(folder)))
    yield run(("explain", "abcdef", "--data", str(folder / IN_A_NAME)))


def _attrition(folder: Path) -> Iterator[Result]:
    """Reasons as the tables hold them, and an engine."""
    world = build(folder)
    table = folder / "drops/claims/hover.parquet"
    frame = pl.read_parquet(table)
    write_parquet(frame.with_columns(reason=pl.lit(f"odd{EVIL}")), table)
    build_catalogue(world.data)
    for form in ("text", "markdown", "csv", "json"):
        yield run(("attrition", "--data", str(folder), "--format", form))
        yield run(("attrition", "--data", str(folder), "--format", form, "--by-reason"))


def _sources(folder: Path) -> Iterator[Result]:
    """The name of the folder, and of a corpus in it."""
    home = folder / f"corpora{IN_A_NAME}"
    (home / f"mine{IN_A_NAME}").mkdir(parents=True)
    page = f"name = {json.dumps(EVIL)}\nlicence = {json.dumps(EVIL)}\n"
    (home / f"mine{IN_A_NAME}" / "source.toml").write_text(page, "utf-8")
    for words in (("sources",), ("sources", "--json")):
        yield run(words, {"DECOMPOSERL_CORPORA": str(home)})


def _fetch(folder: Path) -> Iterator[Result]:
    """Names, revisions and hubs as they were typed."""
    yield run(("fetch", EVIL))
    to = ("fetch", "llm_aggrefact", "--corpora", str(folder / IN_A_NAME))
    yield run((*to, "--endpoint", (folder / "hub").as_uri(), "--revision", EVIL))
    yield run((*to, "--accept-terms", "--endpoint", (folder / "hub").as_uri(), "--revision", EVIL))
    yield run(("fetch", "hover", *to[2:], "--accept-terms", "--mirror", f"http://{IN_A_NAME}:9"))


def _build_pages(folder: Path) -> Iterator[Result]:
    """A corpus, a dump and a folder; a dump that is none."""
    to = ("--corpora", str(folder / IN_A_NAME))
    yield run(("build-pages", EVIL, *to))
    yield run(("build-pages", "fever", *to, "--from", str(folder / f"absent{IN_A_NAME}")))
    dump = folder / f"dump{IN_A_NAME}.jsonl"
    dump.write_text(f"no json {EVIL}\n", "utf-8")
    yield run(("build-pages", "fever", *to, "--from", str(dump)))


def _doctor(folder: Path) -> Iterator[Result]:
    """Variables, a folder, an experiment."""
    data = str(folder / f"data{IN_A_NAME}")
    for words in (("doctor",), ("doctor", "--json"), ("doctor", "--data", data)):
        yield run(words, {"DECOMPOSERL_DATA": data, "DECOMPOSERL_CORPORA": f"/{IN_A_VALUE}"})
    yield run(("doctor",), {"DECOMPOSERL_PROFILE": IN_A_VALUE})
    yield run(("doctor", "--experiment", EVIL), {"DECOMPOSERL_DATA": data})


def _board(folder: Path) -> None:
    row = score("simple-qwen2.5-7b-faithful", "fever", 71.0, engine=f"qwen{EVIL}")
    board = leaderboard(scores((row,)), SYSTEMS, ["fever"], RunCoverage())
    write_parquet(board, folder / "leaderboard.parquet")


def _leaderboard(folder: Path) -> Iterator[Result]:
    """Engines of the table, a damaged file, a folder."""
    _board(folder)
    for form in ("text", "markdown", "csv", "json"):
        yield run(("leaderboard", "--data", str(folder), "--format", form))
    (folder / "accepted.json").write_text(json.dumps({"version": EVIL}), "utf-8")
    yield run(("leaderboard", "--data", str(folder)))
    yield run(("leaderboard", "--data", str(folder / IN_A_NAME)))


def _export_inspect(folder: Path) -> Iterator[Result]:
    """Systems and test sets as they were typed."""
    logs = ("--out", str(folder / IN_A_NAME), "--data", str(folder))
    yield run(("export-inspect", EVIL, *logs))
    yield run(("export-inspect", "simple-rules-faithful", "--benchmarks", EVIL, *logs))


def _accept(folder: Path) -> Iterator[Result]:
    """Systems as they were typed, a note, a folder."""
    home = folder / IN_A_NAME
    home.mkdir()
    _board(home)
    yield run(("accept", "--data", str(home), "--system", EVIL))
    yield run(("accept", "--data", str(home), "--note", EVIL))
    yield run(("accept", "--data", str(home)))


def _rehearse(folder: Path) -> Iterator[Result]:
    """A variable, a recipe, a configuration and its name; each is refused before anything runs."""
    yield run(("rehearse",), {"DECOMPOSERL_PROFILE": IN_A_VALUE})
    home = {"DECOMPOSERL_DATA": str(folder)}
    yield run(("rehearse", "--experiment", EVIL), home)
    file = folder / f"fields{IN_A_NAME}.yaml"
    yield run(("rehearse", "--config", str(file)), home)
    for text in (f"? {json.dumps(EVIL)}", f"[{EVIL}"):
        file.write_text(text, "utf-8")
        yield run(("rehearse", "--config", str(file)), home)


def _verify(folder: Path) -> Iterator[Result]:
    """Claims, evidence, ids, files and systems; standard input; text and JSON."""
    home = {"DECOMPOSERL_DATA": str(folder / "data")}
    evidence = folder / f"evidence{IN_A_NAME}.txt"
    evidence.write_text(f"Ada was born in {EVIL} Odense. {EVIL}", "utf-8")
    one = (
        "verify",
        "--claim",
        f"Ada was born in {IN_A_VALUE} Odense.",
        "--evidence",
        str(evidence),
    )
    row = {
        "claim": f"Ada {EVIL} was born.",
        "evidence": [f"Ada was born. {EVIL}"],
        "claim_id": EVIL,
    }
    path = folder / f"claims{IN_A_NAME}.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    for form in ((), ("--json",)):
        yield run((*one, *form), home)
        yield run(("verify", str(path), *form), home)
    yield run((*one, "--system", EVIL), home)
    path.write_text(f"{json.dumps(row)}\n{json.dumps({'claim': EVIL, EVIL: 1})}", "utf-8")
    yield run(("verify", str(path)), home)
    yield run(("verify", str(folder / IN_A_NAME)), home)


def _run(folder: Path) -> Iterator[Result]:
    """A stage, and the name of a configuration; nothing runs."""
    home = {"DECOMPOSERL_DATA": str(folder)}
    yield run(("run", EVIL), home)
    yield run(("run", "claims/hover", "--config", str(folder / IN_A_NAME)), home)


def _init(folder: Path) -> Iterator[Result]:
    """Columns, labels, a name, a file's name and a row that cannot be read."""
    (folder / "corpora").mkdir()
    rows = folder / f"rows{IN_A_NAME}.jsonl"
    words = ("init", "corpus", "own", "--corpora", str(folder / "corpora"), "--from", str(rows))
    row = {"claim": f"A bridge. {EVIL}", "label": f"odd{EVIL}", f"evidence {EVIL}": f"a b c {EVIL}"}
    rows.write_text(json.dumps(row), "utf-8")
    yield run(words)
    yield run((*words, "--claim", EVIL))
    both = [row, row | {"label": EVIL}]
    rows.write_text("\n".join(map(json.dumps, both)), "utf-8")
    yield run((*words, "--supported", f"odd{EVIL}", "--refuted", EVIL))
    rows.write_text(f"no json {EVIL}", "utf-8")
    yield run(("init", "corpus", f"own{IN_A_NAME}", *words[3:]))


def _pull(folder: Path) -> Iterator[Result]:
    """A file's name and the data folder's, which is in no bucket, or in one of an odd name."""
    yield run(("pull", EVIL), {"DECOMPOSERL_DATA": str(folder / IN_A_NAME)})
    yield run(("pull", EVIL), {"DECOMPOSERL_DATA": f"s3://{IN_A_NAME}/claims"})


def _train(folder: Path) -> Iterator[Result]:
    """A recipe, and the name of a configuration; nothing runs."""
    home = {"DECOMPOSERL_DATA": str(folder)}
    yield run(("train", EVIL), home)
    yield run(("train", "tiny", "--config", str(folder / IN_A_NAME)), home)


def _evaluate(folder: Path) -> Iterator[Result]:
    """A system, a test set, and the name of a configuration; nothing runs."""
    home = {"DECOMPOSERL_DATA": str(folder)}
    yield run(("evaluate", EVIL), home)
    yield run(("evaluate", "cot-rules-faithful", "--benchmarks", EVIL), home)
    yield run(("evaluate", "cot-rules-faithful", "--config", str(folder / IN_A_NAME)), home)


def _view(folder: Path) -> Iterator[Result]:
    """Names of files, systems and runs; a field of a result; nothing is served."""
    data = ("--data", str(folder))
    yield run(("view", str(folder / f"absent{IN_A_NAME}.jsonl"), *data))
    path = folder / f"results{IN_A_NAME}.jsonl"
    path.write_text(json.dumps({"claim": EVIL, "system": "a", "verdict": EVIL}), "utf-8")
    yield run(("view", str(path), *data, "--html", str(folder / "page.html")))
    path.write_text(json.dumps({"claim": EVIL, "system": EVIL, "evidence": EVIL}), "utf-8")
    yield run(("view", str(path), *data, "--html", str(folder / f"page{IN_A_NAME}.html")))
    write_policy(folder)
    for option in ("--system", "--benchmark", "--run"):
        yield run(("view", option, EVIL, *data))


ATTACKS: dict[str, Callable[[Path], Iterator[Result]]] = {
    "score": _score,
    "serve-rewards": _serve_rewards,
    "metrics": _metrics,
    "explain": _explain,
    "attrition": _attrition,
    "sources": _sources,
    "fetch": _fetch,
    "build-pages": _build_pages,
    "doctor": _doctor,
    "leaderboard": _leaderboard,
    "export-inspect": _export_inspect,
    "accept": _accept,
    "rehearse": _rehearse,
    "evaluate": _evaluate,
    "init": _init,
    "run": _run,
    "pull": _pull,
    "train": _train,
    "verify": _verify,
    "view": _view,
}
COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_lets_text_act(command: str, tmp_path: Path):
    """A new command needs an attack of its own here. No traceback either."""
    results = list(ATTACKS[command](tmp_path))
    for result in (*results, run((command, f"--{EVIL}")), run((command, EVIL, EVIL, EVIL, EVIL))):
        assert set() == acting(result.output), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
    assert any("\\x1b" in result.output or "\\u001b" in result.output for result in results), (
        "the attack reaches the output"
    )


def test_a_wrong_command_is_repeated_printably():
    """Before any command is found."""
    assert set() == acting(run((EVIL,)).output) | acting(run((f"--{EVIL}",)).output)


@given(st.text(st.characters()))
@LAW
def test_what_shows_stays_and_the_rest_is_escaped(text: str):
    """Nothing acts; text that shows is unchanged; JSON reads back as it was."""
    assert set() == acting(printable(text)) | acting(printable_json([text, {text: text}]))
    assert printable(text) == printable(printable(text))
    assert [text, {text: text}] == json.loads(printable_json([text, {text: text}]))
    assert "\n" not in printable(text, keep="")


@pytest.mark.parametrize(
    "text", ["", "plain", "“Ösk” – 1,921 €", "日本語　文", "नमस्ते", "é e\u0301", "🇬🇧 ❤️", "a\u00a0b"]
)
def test_text_of_any_language_stays_as_it_is(text: str):
    """Escapes are for what does not show."""
    assert text == printable(text)
    assert json.dumps(text, ensure_ascii=False) == printable_json(text)


@pytest.mark.parametrize(
    ("one", "shown"),
    [("\x1b", "\\x1b"), ("\x9b", "\\x9b"), ("\u202e", "\\u202e"), ("\u2028", "\\u2028"),
     ("\ud800", "\\ud800"), ("\U000e0041", "\\U000e0041"), ("\r", "\\r"), ("\x7f", "\\x7f")],
)  # fmt: skip
def test_escapes_are_pythons(one: str, shown: str):
    """A reader sees which character it was."""
    assert f"a{shown}b" == printable(f"a{one}b")


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


@pytest.mark.parametrize(
    "path", sorted((ROOT / "dagster_project").glob("*.py")), ids=lambda path: path.name
)
def test_only_one_module_prints(path: Path):
    """All others print through ``dagster_project.terminal``, once its libraries are installed."""
    if path.name in {"terminal.py", "installing.py"}:
        return
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"print", "Console", "rich.print"}, f"line {node.lineno}"
            assert not called.endswith((".echo", ".secho")), f"line {node.lineno}"
            assert called not in {"sys.stdout.write", "sys.stderr.write"}, f"line {node.lineno}"
        if isinstance(node, ast.ImportFrom):
            assert node.module not in {"rich", "rich.console"}, f"line {node.lineno}"
