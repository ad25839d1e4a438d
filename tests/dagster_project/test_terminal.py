"""All commands: tables, the help, what is refused, and what a terminal is sent.

Text from outside never acts on a terminal, whichever command prints it.
"""

import ast
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import dagster as dg
import polars as pl
import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.definitions import defs
from dagster_project.stages import stages_named, stages_of
from dagster_project.terminal import Terminal, print_columns, print_json, print_marked, print_note
from decomposerl.evaluation.leaderboard import leaderboard
from decomposerl.printable import printable, printable_json
from documents import configurations, decomposerl_lines
from environment import lacking
from fixture_data import BENCHMARK, FATES, SELECTED, SIZES, SPLIT, World, build
from leaderboard_parts import SYSTEMS, score, scores
from metrics_parts import sample, write
from planted_traces.planting import planted_traces
from project import ROOT
from resources.catalogue.database import build_catalogue, open_catalogue
from resources.corpora.bundled_sample import fingerprint
from resources.store.parquet import write_parquet
from strategies import LAW
from tables import cases_beside
from toy_corpus import corpus
from trace_runs import write_traces
from training_files import write_policy

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = build(tmp_path_factory.mktemp("data"))
    build_catalogue(made.data)
    return made


def run(*words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(app, list(words))


def at(world: World, *words: str) -> Result:
    return run(*words, "--data", str(world.data))


def assert_refused(result: Result, *words: str) -> None:
    """Exit code 2, the words on standard error, no traceback, nothing on standard output."""
    assert 2 == result.exit_code
    assert "" == result.stdout
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in ANSI.sub("", result.stderr)


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - typer's
    """The words of each command, and the command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def test_no_command_takes_a_url_for_a_path(tmp_path: Path):
    """One line, for every option and argument that is a path; nothing is written."""
    before, url = sorted(Path.cwd().iterdir()), "s3://bucket/x"
    tried = 0
    for words, command in commands(typer.main.get_command(app)):
        hints = get_type_hints(command.callback)
        for asked in command.params:
            hint = hints.get(asked.name)
            if Path not in {hint, *get_args(hint)}:
                continue
            line = [*words]
            for one in command.params:
                if one.param_type_name == "argument" or one is asked or one.required:
                    flag = [] if one.param_type_name == "argument" else [max(one.opts, key=len)]
                    line += [*flag, url if one is asked else "word"]
            refused = run(*line, env={"DECOMPOSERL_DATA": str(tmp_path)})
            assert_refused(refused, "holds a URL (s3://...)", "copy what is in a bucket")
            assert 1 == len(refused.stderr.splitlines()), line
            tried += 1
    assert tried >= 30
    assert ([], before) == (list(tmp_path.iterdir()), sorted(Path.cwd().iterdir()))


def test_attrition_prints_the_papers_table(world: World):
    """Every source with counts, the total and the engines; CSV and JSON hold the same values."""
    by_variable = run("attrition", env={"DECOMPOSERL_DATA": str(world.data)})
    for result in (at(world, "attrition"), by_variable):
        assert 0 == result.exit_code
        assert re.search(rf"HoVer +18,171 +30 +{SIZES['hover']}", result.stdout)
        assert [] == lacking(result.stdout, f"{sum(SIZES.values())}", "engine=verifier=lexical")
    for words in (("attrition",), ("attrition", "--by-reason")):
        csv = pl.read_csv(io.StringIO(at(world, *words, "--format", "csv").stdout))
        rows = json.loads(at(world, *words, "--format", "json").stdout)
        markdown = at(world, *words, "--format", "markdown").stdout
        assert csv.to_dicts() == rows
        shown = [row for row in rows if words[1:] or row["read"]]  # sources without rows are named
        assert len(shown) + 2 == sum(line.startswith("|") for line in markdown.splitlines())
        assert 0 == at(world, *words).exit_code


def test_a_moved_data_folder_answers_as_before(tmp_path: Path):
    """Its tables, and the catalogue, whose views read the files beside it."""
    original, copy = tmp_path / "original", tmp_path / "elsewhere" / "copy"
    build_catalogue(build(original).data)
    expected = run("attrition", "--data", str(original))
    with open_catalogue(original) as catalogue:
        rows = catalogue.sql("FROM deduplicated ORDER BY claim_id").fetchall()
    copy.parent.mkdir()
    original.rename(copy)
    assert (0, expected.stdout) == (
        expected.exit_code,
        run("attrition", "--data", str(copy)).stdout,
    )
    with open_catalogue(copy) as catalogue:
        assert rows == catalogue.sql("FROM deduplicated ORDER BY claim_id").fetchall()


def test_attrition_stands_beside_the_papers_table(world: World):
    """A row per source and in total, the same as CSV and JSON; reasons are on a page."""
    words = ("attrition", "--against", "paper")
    rows = json.loads(at(world, *words, "--format", "json").stdout)
    csv = pl.read_csv(io.StringIO(at(world, *words, "--format", "csv").stdout))
    assert csv.to_dicts() == rows
    assert 15 == len(rows)
    (hover,) = (row for row in rows if row["source"] == "hover")
    assert (SIZES["hover"], 18_171) == (hover["raw"], hover["raw_paper"])
    text = at(world, *words).stdout
    assert re.search(rf"HoVer +{SIZES['hover']} +18,171 +{SIZES['hover'] - 18_171:,} ", text)
    assert [] == lacking(text, "paper-readings.md", "engine=verifier=lexical")
    assert "| HoVer |" in at(world, *words, "--format", "markdown").stdout


def test_attrition_stands_beside_the_published_files(world: World):
    """What all public files of a source give, where it is known, with what is known of them."""
    rows = json.loads(at(world, "attrition", "--against", "published", "--format", "json").stdout)
    by_source = {row["source"]: row for row in rows}
    hover = by_source["hover"]
    assert (SIZES["hover"], 18_171) == (hover["ours"], hover["published"])
    assert hover["ours"] - hover["published"] == hover["difference"]
    assert (None, None) == tuple(by_source["ex_fever"][n] for n in ("published", "difference"))


def test_attrition_against_an_older_folder_shows_what_a_threshold_moved(tmp_path: Path):
    """Per stage and source the claims that only one of both kept, and the settings that differ."""
    older = build(tmp_path / "older")
    build_catalogue(build(tmp_path / "now").data)
    data, stage = tmp_path / "now", "deduplicated"
    kept = pl.read_parquet(data / f"{stage}.parquet")
    back = older.claims.filter(pl.col("claim_id") == older.dropped("lexical_duplicate"))
    columns = ["claim_id", "source"]
    moved = pl.concat([kept.select(columns).slice(1), back.select(columns)])
    moved.write_parquet(data / f"{stage}.parquet")
    record = data / f"stage_runs/{stage}.json"
    changed = json.loads(record.read_text("utf-8"))
    changed["config"] = json.dumps({**json.loads(changed["config"]), "cosine": 0.9})
    record.write_text(json.dumps(changed), "utf-8")
    words = ("attrition", "--data", str(data), "--against", str(older.data))
    rows = json.loads(run(*words, "--format", "json").stdout)
    (total,) = (row for row in rows if (row["stage"], row["source"]) == (stage, "total"))
    assert (0, 1, 1) == (total["difference"], total["left"], total["came"])
    assert len(kept) == total["older"] == total["now"]
    assert "cosine 0.7 → 0.9" == total["settings"]
    assert {0} == {row["left"] + row["came"] for row in rows if row["stage"] != stage}
    for output in ("text", "markdown"):
        shown = run(*words, "--format", output).stdout
        assert f"{stage}: cosine 0.7 → 0.9" in shown
    assert_refused(run(*words[:-1], str(tmp_path / "no")), "published", "no stage has run")


def test_explain_takes_an_id_or_a_beginning(world: World, tmp_path: Path):
    """Both tell the same life; claims of one beginning are listed."""
    claim_id = world.with_fate(SELECTED)
    whole, beginning = at(world, "explain", claim_id), at(world, "explain", claim_id[:8].upper())
    assert 0 == whole.exit_code
    assert whole.stdout == beginning.stdout
    made = build(tmp_path)
    twins = made.claims.head(2).with_columns(claim_id=pl.Series(["abcdef01", "abcdef02"]))
    twins.write_parquet(tmp_path / "claims/twins.parquet")
    both = run("explain", "abcdef", "--data", str(tmp_path))
    assert_refused(both, "abcdef01", "abcdef02")
    row = world.claims.filter(pl.col("claim_id") == claim_id).row(0, named=True)
    assert whole.stdout == at(world, "explain", f"  {row['claim'].upper()}\n").stdout
    left = made.claims.filter(pl.col("source") == SPLIT)["claim_id"][0]
    for path in (*tmp_path.glob("*.parquet"), tmp_path / f"claims/{SPLIT}.parquet"):
        path.unlink()
    unread = run("explain", left, "--data", str(tmp_path)).stdout
    assert "its document is left to training" in unread, "only its benchmark's drops know it"


def test_explain_tells_how_a_claim_ended(world: World):
    """A leak, a claim that left while reading, one held out; a split corpus by its source."""
    read = pl.read_parquet(world.data / "drops/claims/hover.parquet")["claim_id"][0]
    held = world.benchmark.filter(pl.col("source") == SPLIT)["claim_id"][0]
    leak = ("0.95 is at or above 0.9 (step semantic_match, engine cosine)", "✗ decontaminated")
    lives = {
        world.with_fate(SELECTED): ("In the training set",),
        world.dropped("semantic_match"): (*leak, f"test claim of {BENCHMARK}"),
        read: ("its text is not stored", "middle class"),
        held: (f"✗ claims/{SPLIT}", f"it serves the benchmark {SPLIT}"),
    }
    for claim_id, words in lives.items():
        shown = at(world, "explain", claim_id).stdout
        assert [] == [word for word in words if word not in shown], shown
    twice = at(world, "explain", world.dropped("lexical_duplicate"), "--json")
    story = json.loads(twice.stdout)
    assert "Dropped by deduplicated." == story["end"]
    assert "lexical_duplicate" == story["events"][-1]["numbers"]["reason"]
    assert "hover" == story["matched"]["name"]
    claims = world.claims.filter(pl.col("source") == SPLIT)["claim_id"]
    for claim_id, fate in zip(claims, FATES, strict=False):
        story = json.loads(at(world, "explain", claim_id, "--json").stdout)
        end = f"Dropped by {fate.stage}." if fate.reason else "In the training set"
        assert story["end"].startswith(end)
        assert "source" == story["where"]


def test_sources_lists_licence_terms_and_files(tmp_path: Path):
    """Every corpus with licence, use and files; the bundled sample before it is written."""
    (tmp_path / "scitab").mkdir()
    (tmp_path / "scitab" / "sci_tab.json").write_text("[]", "utf-8")
    env = {"DECOMPOSERL_CORPORA": str(tmp_path), "COLUMNS": "200"}
    rows = json.loads(run("sources", "--json", env=env).stdout)
    by_use = {(row["name"], row["use"].split(":")[0]): row for row in rows}
    assert ["scitab/sci_tab.json"] == by_use["scitab", "training"]["present"]
    assert [] == by_use["hover", "training"]["present"]
    assert ("llm_aggrefact", "off for training") in by_use
    assert ("coverbench", "benchmark") in by_use
    assert all(row["license"] and row["terms"] for row in rows)
    shown = run("sources", env=env)
    assert 0 == shown.exit_code
    assert "1 of 1 files" in shown.stdout
    shutil.rmtree(tmp_path / "scitab")
    env = {"DECOMPOSERL_CORPORA": "", "DECOMPOSERL_DATA": str(tmp_path), "COLUMNS": "200"}
    rows = {row["name"]: row for row in json.loads(run("sources", "--json", env=env).stdout)}
    assert ["scitab/sci_tab.json"] == rows["scitab"]["present"]
    assert all(row["present"] for row in rows.values())
    where = f"bundled sample: {tmp_path}/sample/{fingerprint()}"
    assert run("sources", env=env).stdout.endswith(f"{where}, which the first run writes\n")
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "sample" / fingerprint()).mkdir(parents=True)
    assert run("sources", env=env).stdout.endswith(f"{where}\n")


def test_commands_start_without_the_graph():
    """Neither Dagster nor a heavy library is imported to show the help or a table."""
    code = (
        "import sys, dagster_project.cli, resources.catalogue.database\n"
        "import resources.catalogue.claim_lookup\n"
        "heavy = {'dagster', 'torch', 'spacy', 'matplotlib', 'sklearn', 'numba'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()


def test_the_help_lists_every_command():
    """In the groups of its panels; ``--version`` is one line, without a command."""
    shown = ANSI.sub("", run("--help", env={"COLUMNS": "100"}).stdout)
    listed = re.findall(r"^│ (\w[\w-]*) ", shown, re.MULTILINE)
    assert set(typer.main.get_command(app).commands) == set(listed)
    done = run("--version")
    assert (0, f"decomposerl {version('decomposerl')}\n") == (done.exit_code, done.stdout)


def test_a_shell_completes_commands_and_recipes():
    """By the protocol of the script that ``--install-completion`` installs."""
    offers = {
        "decomposerl ev": ["evaluate"],
        "decomposerl train tiny_sh": ["tiny_shuffled"],
        "decomposerl train supervision": [f"supervision_{s}" for s in (10, 30, 50, 70)],
    }
    for words, offered in offers.items():
        at_end = str(len(words.split()) - 1)
        env = {"_DECOMPOSERL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": at_end}
        done = CliRunner(env=env).invoke(app, [], prog_name="decomposerl")
        assert offered == done.stdout.split()


def test_every_documented_command_exists():
    """With options, as many arguments, and stages of the graph or the reader's; settings too."""
    lines = decomposerl_lines()
    stages_here = stages_of(defs)
    for document, line in lines:
        command, words = typer.main.get_command(app), shlex.split(line)
        while words and words[0] in getattr(command, "commands", ()):
            command, words = command.commands[words[0]], words[1:]
        assert not hasattr(command, "commands"), (document, line)
        asked, left, _ = command.make_parser(click.Context(command)).parse_args(words)
        assert [] == left, (document, line)
        named = (words.split() for other, words in lines if other == document)
        own = {f"claims/{words[2]}" for words in named if words[:2] == ["init", "corpus"]}
        stages = {"funnel"}.union(asked.get("stages") or ()) - own
        assert stages_named(sorted(stages), stages_here), (document, line)
    job = defs.resolve_implicit_global_asset_job_def()
    for document, text in configurations():
        assert dg.validate_run_config(job, yaml.safe_load(text)), (document, text)


# What is refused

REFUSALS = cases_beside(__file__, "refusals")
NOTE = {"note_id": 1, "statement": "It is blue.", "report": "It is blue.", "verdict": "holds"}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Traces, predictions with labels, rows, corpora, and an instance that never gets a run."""
    folder = tmp_path_factory.mktemp("given")
    write_traces(folder / "traces")
    build_catalogue(build(folder / "world").data)
    corpus(folder / "corpora", claims=3)
    (folder / "home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", folder / "home")
    lines = "".join(f"{trace.line()}\n" for trace in planted_traces(claims=1))
    (folder / "traces.jsonl").write_text(lines, "utf-8")
    for name, rows in zip(("said.csv", "gold.csv"), sample(), strict=True):
        write(folder / name, rows)
    write(folder / "notes.jsonl", [NOTE, NOTE | {"note_id": 2, "verdict": "fails"}])
    yield folder
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        assert 0 == instance.get_runs_count()


def everything(*folders: Path) -> dict[Path, bytes]:
    """The files below folders, without those of Dagster's instance."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if "home" not in path.parts}


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row["run"])
def test_a_refusal_is_one_line_and_writes_nothing(row: dict[str, Any], ready: Path, tmp_path: Path):
    """Exit code 2; the message has the names; no traceback, no output, no file, no secret."""
    for name, text in row.get("files", {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))

    def filled(text: str) -> str:
        return text.replace("{f}", str(ready)).replace("{t}", str(tmp_path))

    env = {"DATA": ready / "data", "CORPORA": ready / "corpora", "SYSTEMS": None, "PROFILE": None}
    named = {f"DECOMPOSERL_{name}": value and str(value) for name, value in env.items()}
    home = {"DAGSTER_HOME": str(ready / "home"), "COLUMNS": "400", "NO_COLOR": "1"}
    before = everything(ready, tmp_path)
    more = {name: filled(value) for name, value in row.get("env", {}).items()}
    words = shlex.split(filled(row["run"]))
    done = CliRunner(env=named | home | more).invoke(app, words, input=row.get("input"))
    said = " ".join(done.stderr.replace("│", " ").split())
    assert (2, "") == (done.exit_code, done.stdout), done.output
    assert [] == [name for name in map(filled, row["says"]) if name not in said], said
    lines = len(done.stderr.splitlines())
    assert row.get("list", 1) in {True, lines} or "Usage: " in said, done.stderr
    assert "Traceback" not in said
    assert "hidden7391" not in said
    assert before == everything(ready, tmp_path)


# What a terminal is sent

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
    if command == "leaderboard":
        home = folder
        row = score("simple-qwen2.5-7b-faithful", "fever", 71.0, engine=f"qwen{EVIL}")
        board = leaderboard(scores((row,)), SYSTEMS, ["fever"], {})
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
    assert [] == lacking(captured.err, "a\\n\\x1b", "[bold]")


def test_only_one_module_prints():
    """All others print through ``dagster_project.terminal``."""
    printing = {"print", "Console", "rich.print", "sys.stdout.write", "sys.stderr.write"}
    for path in sorted((ROOT / "dagster_project").glob("*.py")):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in printing, (path.name, node.lineno)
                assert not called.endswith((".echo", ".secho")), (path.name, node.lineno)
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {"rich", "rich.console"}, (path.name, node.lineno)
