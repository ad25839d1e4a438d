"""What a person reads when a run stops: one sentence, last and alone."""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from dagster_shared.error import SerializableErrorInfo

from bridge_corpus import bridge_corpus, materialize, write_jsonl
from dagster_project.run_errors import PrintableFormatter, RunErrors, event_message
from dagster_project.terminal import report_errors
from decomposerl.printable import printable
from decomposerl.training.experiments import experiment
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
    assert "Stack Trace" in log
    assert "RUN_FAILURE" in log
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data/difficulty_band.parquet").write_text("PAR1")
    assert re.search(
        r"band\.parquet cannot be read .*'difficulty_band'", stopped(tmp_path, *STEP)[-1]
    )
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data").touch()
    below = {"DECOMPOSERL_DATA": str(tmp_path / "data/below")}
    assert re.search("Not a directory: '.*data/below", stopped(tmp_path, *HOVER[:2], **below)[-1])


def test_a_package_that_is_not_installed_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str],
):
    """Wherever it was imported: in a run of the graph, and in a command; not one of the project."""
    sentence = "safetensors is not installed: pip install 'decomposerl[embed]'"
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
    "safetensors": (
        "embed",
        "from resources.policy_tiny.folder import *; base_policy_facts(CHECKPOINT)",
    ),
    "trl": (
        "train",
        "from dagster_project.worker import main; sys.exit(main(['--run', sys.argv[1]]))",
    ),
    "peft": (
        "train",
        "from resources.evaluation.weights import Weights; Weights('b', 'a').load()",
    ),
    "spacy": (
        "science",
        "from resources.entities.rule_engine import RuleEntities; RuleEntities().engine",
    ),
}


@pytest.mark.parametrize("module", EXTRAS)
def test_an_engine_names_the_extra_of_its_package(module: str, tmp_path: Path):
    """Before it reads or loads anything."""
    extra, words = EXTRAS[module]
    run = tmp_path / "run.json"
    paths = {"claims": tmp_path / "claims.parquet", "folder": tmp_path / "run"}
    run.write_text(TrainingRun(experiment("tiny"), "0" * 16, base="b", **paths).to_json())
    code = f"import sys; sys.modules[{module!r}] = None; {words}"
    done = program("-c", code, str(run), DECOMPOSERL_DATA=str(tmp_path))
    sentence = f"{module} is not installed: pip install 'decomposerl[{extra}]'"
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
