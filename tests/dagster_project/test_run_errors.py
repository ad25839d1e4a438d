"""What a person reads of a run: a line per asset, what is in progress, and why it stopped."""

import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
import typer
from dagster_shared.error import SerializableErrorInfo

from bridge_corpus import bridge_corpus, materialize, write_jsonl
from dagster_project.progress_display import ProgressDisplay, rate_text, shown_progress
from dagster_project.run_errors import PrintableFormatter, RunErrors, event_message
from dagster_project.run_progress import RunProgress
from dagster_project.terminal import Terminal, report_errors
from decomposerl.extras import install_command
from decomposerl.printable import printable
from decomposerl.progress import bar
from decomposerl.reports.stage_page import MOST_LEFT
from decomposerl.training.experiments import experiment
from environment import lacking
from project import ROOT
from resources.training.process import TrainingRun

MOST_LINES = 4  # a warning of Dagster's own in two, its "failed" in one, the sentence
STEP = ["--select", 'key:"deduplicated"']


def program(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """A process of Python that must fail."""
    kept = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    command, env = [sys.executable, *words], kept | environment
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done


def stopped(tmp_path: Path, *words: str, **environment: str) -> list[str]:
    """The lines of a run of ``dagster asset materialize`` that must fail."""
    defaults = {"DECOMPOSERL_DATA": str(tmp_path / "data"), "TMPDIR": str(tmp_path)}
    command = ["-m", "dagster", "asset", "materialize", "-m", "dagster_project.definitions"]
    done = program(*command, *words, **defaults | environment)
    assert "Traceback" not in done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) <= MOST_LINES
    return lines


HOVER = ["--select", 'key:"claims/hover"', "--config-json"]
REFUSED: list[tuple[list[str], dict[str, str], str]] = [
    (STEP, {"DECOMPOSERL_CORPUS": "x"}, "the nearest is DECOMPOSERL_CORPORA"),
    (["--select", 'key:"claims/hoover"'], {}, 'the nearest is key:"claims/hover"'),
    ([*HOVER, '{"ops": {"claims__hover": {"config": {"cosin": 3}}}}'], {}, '"cosin"'),
    ([*HOVER, '{"resources": {"corpora": {"config": {"root": {"env": "NOPE"}}}}}'], {}, '"NOPE"'),
]


@pytest.mark.parametrize(("words", "environment", "said"), REFUSED)
def test_a_run_that_is_refused_says_so_alone_and_writes_nothing(
    words: list[str], environment: dict[str, str], said: str, tmp_path: Path
):
    """Before its first step."""
    lines = stopped(tmp_path, *words, **environment)
    assert said in lines[-1]
    assert "Stack Trace" not in lines[-1]
    assert not (tmp_path / "data").exists()


def test_an_input_that_is_missing_or_damaged_is_one_line_with_its_trace_in_a_log(tmp_path: Path):
    """The file, the asset to materialize, and where the rest is."""
    last = stopped(tmp_path, *STEP)[-1]
    found = re.search(r"^(.*) is not there; materialize '(.*)' first \(log: (.*)\)$", last)
    assert found is not None
    assert ("difficulty_band", "difficulty_band") == (Path(found[1]).stem, found[2])
    log = Path(found[3]).read_text("utf-8")
    assert [] == lacking(log, "Stack Trace", "RUN_FAILURE")
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data/difficulty_band.parquet").write_text("PAR1")
    damaged = stopped(tmp_path, *STEP)[-1]
    assert re.search(r"band\.parquet cannot be read .*'difficulty_band'", damaged)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data").touch()
    below = {"DECOMPOSERL_DATA": str(tmp_path / "data/below")}
    assert re.search("Not a directory: '.*data/below", stopped(tmp_path, *HOVER[:2], **below)[-1])


def test_a_package_that_is_not_installed_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str],
):
    """Wherever it was imported: in a run of the graph, and in a command; not one of the project."""
    sentence = f"safetensors is not installed: {install_command('safetensors')}"
    error = ModuleNotFoundError("No module named 'safetensors.numpy'")
    errors = RunErrors()
    errors.uncaught(ModuleNotFoundError, error, None)
    errors.report()
    assert sentence in capsys.readouterr().err
    info = SerializableErrorInfo(f"ModuleNotFoundError: {error}\n", [], "ModuleNotFoundError")
    assert (sentence, False) == event_message(info)

    @report_errors
    def command(missing: ModuleNotFoundError) -> None:
        raise missing

    with pytest.raises(typer.Exit) as ended:
        command(error)
    assert 2 == ended.value.exit_code
    assert [sentence] == capsys.readouterr().err.splitlines()
    with pytest.raises(ModuleNotFoundError):
        command(ModuleNotFoundError("No module named 'resources.nowhere'"))


EXTRAS = {
    "safetensors": "embed:from resources.policy_tiny.folder import *;base_policy_facts(CHECKPOINT)",
    "trl": "train:from dagster_project.worker import main; sys.exit(main(['--run', sys.argv[1]]))",
    "peft": "train:from resources.evaluation import local_model as m;"
    "m.load_weights(m.Endpoint(model='b', adapter='a'))",
    "spacy": "science:from resources.entities import rule_engine as r; r.RuleEntities().engine",
}
"""An extra, and what needs it."""


@pytest.mark.parametrize("module", EXTRAS)
def test_an_engine_names_the_extra_of_its_package(module: str, tmp_path: Path):
    """Before it reads or loads anything."""
    extra, words = EXTRAS[module].split(":", 1)
    run = tmp_path / "run.json"
    paths = {"claims": tmp_path / "claims.parquet", "folder": tmp_path / "run"}
    run.write_text(TrainingRun(experiment("tiny"), "0" * 16, base="b", **paths).to_json())
    code = f"import sys; sys.modules[{module!r}] = None; {words}"
    done = program("-c", code, str(run), DECOMPOSERL_DATA=str(tmp_path))
    sentence = f"{module} is not installed: pip install -e '.[{extra}]' -c constraints-cpu.txt"
    assert done.stderr.strip().splitlines()[-1].endswith(sentence)


def test_the_demo_too(tmp_path: Path):
    """It says what is wrong with its environment in one line."""
    wrong = {"DECOMPOSERL_PROFIL": "paper", "DECOMPOSERL_DATA": str(tmp_path)}
    (line,) = program("-m", "dagster_project", **wrong).stderr.splitlines()
    assert "the nearest is DECOMPOSERL_PROFILE" in line


HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\u202e\u2066\x9b31m\u200b\x85\r\u2028[red]x"


def test_a_line_of_dagsters_log_is_text_alone():
    """Message, arguments and a trace; the record, which is stored too, stays as it was."""
    inner = logging.Formatter("\x1b[32m%(levelname)s\x1b[0m %(message)s")
    error = ValueError(HOSTILE)
    record = logging.LogRecord(
        "dagster", logging.WARNING, "", 0, "%s\nend", (HOSTILE,), (ValueError, error, None)
    )
    shown = PrintableFormatter(inner).format(record)
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
    done = materialize(tmp_path)
    output = done.stderr + done.stdout
    assert done.returncode == 0, output[-3000:]
    assert r"bridge_notes/x\x1b]0;t\x07\u202e.jsonl:1 x\x1b]0;t\x07\u202e" in output
    assert not any(raw in output for raw in ("\x1b]", "\x07", "\u202e"))


# What is in progress

EVIL = "\x1b[2J"


class Slow(dg.Config):
    """How long the asset takes at least, in seconds."""

    seconds: float = 0.0


@dg.asset(key=["claims", "toy"])
def toy(context: dg.AssetExecutionContext, config: Slow) -> dg.MaterializeResult[None]:
    """An asset that logs, with a row count."""
    time.sleep(config.seconds)
    context.log.info("step 1 of 2")
    context.log.warning(f"odd {EVIL}")
    facts = {"dagster/row_count": 1_234, MOST_LEFT: "3 of 4 dropped, 2 as too_short"}
    return dg.MaterializeResult(metadata=facts)


@dg.asset_check(asset=toy)
def fine() -> dg.AssetCheckResult:
    """A check that passes."""
    return dg.AssetCheckResult(passed=True)


@dg.asset_check(asset=toy)
def guard() -> dg.AssetCheckResult:
    """A check that does not."""
    return dg.AssetCheckResult(passed=False, description="too few rows")


@dg.asset_check(asset=toy)
def without_words() -> dg.AssetCheckResult:
    """A check that says no more than its figures."""
    page = dg.MarkdownMetadataValue("|")
    figures = {"share": 0.9, "rows": 40, "struck": ["toy"], "none": [], "page": page}
    return dg.AssetCheckResult(passed=False, metadata=figures)


def shown(
    data: Path, *, tty: bool, messages: bool = False, slow_s: float = 0.0, every_s: float = 30.0
) -> tuple[str, Path]:
    """What a run of the asset and its checks prints, and its log."""
    stream = Tty() if tty else io.StringIO()
    terminal = Terminal(file=stream, force_terminal=tty, color_system=None, width=120)
    watch = RunProgress(data, messages=messages, terminal=terminal, line_every_s=every_s)
    with watch as progress:
        graph = dg.Definitions(
            assets=[toy],
            asset_checks=[fine, guard, without_words],
            jobs=[dg.define_asset_job("all")],
            loggers={"console": progress.logger},
        )
        ops = {"claims__toy": {"config": {"seconds": slow_s}}}
        config = {"loggers": {"console": {}}, "ops": ops}
        assert graph.resolve_job_def("all").execute_in_process(config).success
    assert progress.log is not None
    return stream.getvalue(), progress.log


def test_an_asset_is_one_line(tmp_path: Path):
    """Its warnings come before it, a failed check after it; its other messages where wanted.

    A silent step says in the log and, as it is no terminal, on the stream that it runs.
    """
    for messages in (False, True):
        text, log = shown(tmp_path, tty=False, messages=messages)
        lines = text.splitlines()
        assert (["  step 1 of 2"] if messages else []) == lines[:-4]
        assert r"· odd \x1b[2J" == lines[-4]
        made = r"✓ claims/toy +1,234 rows +\d+\.\d s  \(3 of 4 dropped, 2 as too_short\)"
        assert re.fullmatch(made, lines[-3])
        assert "· claims/toy: check guard: too few rows" == lines[-2]
        assert [] == lacking(lines[-1], "without_words", "share 0.9", "rows 40", "struck ['toy']")
        assert [] == [left_out for left_out in ("none", "page") if left_out in lines[-1]]
        logged = log.read_text("utf-8")
        assert log.parent == tmp_path / "logs"
        assert [] == lacking(logged, "step 1 of 2", "RUN_SUCCESS")
        assert EVIL not in logged
    text, log = shown(tmp_path, tty=False, slow_s=0.6, every_s=0.1)
    assert re.search(r"^  claims/toy: 0\.\d s$", text, re.MULTILINE)
    assert re.search(r"INFO claims/toy: 0\.\d s$", log.read_text("utf-8"), re.MULTILINE)


def test_a_terminal_shows_what_is_in_progress(tmp_path: Path):
    """A bar that is removed when the asset's line is printed; nothing of it is left at the end."""
    text, _ = shown(tmp_path, tty=True, slow_s=0.6)
    assert re.search(r"⠋ claims/toy +━+ +0\.\d s", text)
    assert re.search(r"✓ claims/toy +1,234 rows", text)
    assert "" == text.rpartition("\x1b[2K")[2].replace("\x1b[?25h", "").strip()


MARKED = f"{EVIL}evil [red]"
SOON_S = 0.05


class Tty(io.StringIO):
    """A terminal, or a pipe, that keeps what is drawn until it is ``gone``."""

    gone = False

    def __init__(self, error: OSError | None = None) -> None:
        """``error``: of a pipe whose reader has ended; else a terminal was closed from outside."""
        super().__init__()
        self.error = error

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self.error is None

    def write(self, text: str) -> int:
        """Keep the text, or fail as after a logout."""
        if self.gone:
            raise self.error or OSError(5, "Input/output error")
        return super().write(text)


def until(found: Callable[[], bool]) -> None:
    """Wait until it is so, 10 s at most."""
    end = time.monotonic() + 10
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_file_gets_a_line_now_and_then():
    """Step and bars in one line, after a silence, with rate and time left; nothing once done."""
    stream, logged = io.StringIO(), []
    with ProgressDisplay(Terminal(file=stream), logged.append, SOON_S) as display:
        display.step("claims/toy")
        with bar(MARKED, 400, "claims", known=100) as shown:
            shown.advance(100, note="$1.20")
            until(lambda: any("$1.20" in line for line in logged))
        display.step("")
        until(lambda: not display._shown)
        quiet = len(logged)
        time.sleep(4 * SOON_S)
        assert quiet + 1 >= len(logged)
    line = next(line for line in logged if "$1.20" in line)
    assert re.match(r"claims/toy: \d+\.\d s; \\x1b\[2Jevil \[red\]: 200 of 400 claims, ", line)
    assert re.search(r" a (second|minute), .* left, \$1\.20$", line)
    assert f"  {line}" in stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()

    logged: list[str] = []
    with ProgressDisplay(Terminal(file=io.StringIO()), logged.append, 0.5) as display:
        display.step("busy")
        for _ in range(10):
            display.said()
            time.sleep(0.06)
        assert [] == logged


def test_a_terminal_gets_bars():
    """Drawn while they are open, without markup, and the cursor is never hidden."""
    stream = Tty()
    terminal = Terminal(file=stream, force_terminal=True, color_system=None, width=120)
    with ProgressDisplay(terminal) as display:
        display.step("claims/toy")
        with bar(MARKED, 400, "claims") as shown:
            shown.advance(100)
            until(lambda: "100 of 400 claims" in stream.getvalue())
        terminal.print("done [red]")
    text = stream.getvalue()
    assert [] == lacking(text, "claims/toy", r"\x1b[2Jevil [red]", "done [red]")
    assert "\x1b[2J" not in text
    assert "\x1b[?25l" not in text


def test_lines_take_the_place_of_bars_that_cannot_be_drawn():
    """A pipe whose colours are forced, a terminal that cannot move its cursor; rates have units."""
    for environment, stream in (({"FORCE_COLOR": "1"}, io.StringIO()), ({"TERM": "dumb"}, Tty())):
        with ProgressDisplay(Terminal(file=stream, _environ=environment), None, SOON_S) as display:
            display.step("claims/toy")
            until(lambda stream=stream: "  claims/toy: " in stream.getvalue())
        assert "\x1b[2K" not in stream.getvalue()
    shown = [rate_text(rate) for rate in (1_234.4, 0.5, 0.01)]
    assert ["1,234 a second", "30 a minute", "36 an hour"] == shown


@pytest.mark.parametrize(
    "stream", [Tty(), Tty(BrokenPipeError(32, "Broken pipe"))], ids=["terminal", "pipe"]
)
def test_a_stream_that_is_gone_ends_no_work(stream: Tty):
    """After a logout, or where the reader of a pipe has ended; the log goes on."""
    logged: list[str] = []
    with ProgressDisplay(Terminal(file=stream), logged.append, SOON_S) as display:
        display.step("before")
        stream.gone = True
        with bar("work", 3) as shown:
            shown.advance(2)
            until(lambda: any("work: 2 of 3" in line for line in logged))
        display.step("")
    assert not sys.stdout.closed


def test_a_command_prints_beside_its_bars(capsys: pytest.CaptureFixture[str]):
    """Its lines are printable and on the stream of the bars."""
    with shown_progress() as say:
        say(f"✓ {MARKED}")
    shown = capsys.readouterr()
    assert "" == shown.out
    assert "✓ \\x1b[2Jevil [red]\n" == shown.err
