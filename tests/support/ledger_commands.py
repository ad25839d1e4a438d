"""The ledger's row of the commands: their options, and what they answer to wrong calls.

Each wrong call is a shell line: variables, command, options. All run in this process, in one folder
of small files, some of which are damaged.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import typer
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from fixture_data import build
from project import ROOT
from resources.catalogue.database import build_catalogue

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = "│╭╮╰╯─ "
_KEPT = ("PATH", "HOME", "HF_HUB_OFFLINE", "OMP_NUM_THREADS")
_PLAIN = {"COLUMNS": "2000", "NO_COLOR": "1", "TERM": "dumb", "HF_HUB_OFFLINE": "1"}


@contextmanager
def plain_environment(**variables: str) -> Iterator[None]:
    """No variable of this shell but what programs need; what the block sets is undone."""
    before = dict(os.environ)
    kept = {name: before[name] for name in _KEPT if name in before}
    try:
        os.environ.clear()
        os.environ.update(kept | _PLAIN | variables)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def option_names() -> dict[str, list[str]]:
    """Each command with its arguments and the names of its options, in the order of the help."""
    named: dict[str, list[str]] = {}

    def add(command: Any, path: tuple[str, ...]) -> None:  # noqa: ANN401 - typer keeps its click
        named[" ".join(path) or "decomposerl"] = [_declared(one) for one in command.params]
        for name, inner in getattr(command, "commands", {}).items():
            add(inner, (*path, name))

    add(typer.main.get_command(app), ())
    return named


def _declared(parameter: Any) -> str:  # noqa: ANN401 - the same
    """An option's names or an argument's place, with what is fixed about its value."""
    if parameter.param_type_name == "argument":
        words = [parameter.name.upper()]
    else:
        words = [*parameter.opts, *parameter.secondary_opts]
    words += ["required"] * parameter.required + ["repeatable"] * parameter.multiple
    return " ".join(words)


WRONG_CALLS = """\
--no-such-option
nonsense
explain
explain 1234567 --data world
explain 12 --data world
explain "not hex" --data world
explain 12345678 --data absent
explain 12345678 --data s3://bucket/x
sources extra
DECOMPOSERL_PROFILE=nonsense sources
DECOMPOSERL_CORPORA=absent sources
DECOMPOSERL_DATA=claims.jsonl sources
DECOMPOSERL_DATA=s3:// sources
DECOMPOSERL_PROFIL=local sources
DECOMPOSERL_CORPORA=s3://bucket/x sources
DECOMPOSERL_CORPORA=damaged sources
DECOMPOSERL_CORPORA=keys sources
DECOMPOSERL_VLLM_CARDS=two sources
DECOMPOSERL_MAPPER=threads sources
DECOMPOSERL_OWNERS="nobody at all" sources
DECOMPOSERL_EVALUATION_POLICIES=elsewhere sources
DECOMPOSERL_TRAINING_JOBS=ftp://host sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_DEVICE=tpu sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_CHAT_DOLLARS=-3 sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_CHAT_DOLLARS=3 DECOMPOSERL_CHAT_MODEL=some/model sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_CHAT_PRICE=1/2/3 sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_CHAT_URL=http://me:word@host/v1 sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_CHAT_URL=http://[half sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_CHAT_URL=, sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_JUDGE_THINKING=deep sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_JUDGE_MODEL=some/model DECOMPOSERL_JUDGE_THINKING=on sources
DECOMPOSERL_PROFILE=local DECOMPOSERL_GENERATION=vllm_server sources
DECOMPOSERL_PROFILE=paper DECOMPOSERL_VERIFIER_URL=http://a/v1,http://b/v1 sources
DECOMPOSERL_ENDPOINT_URL=http://127.0.0.1:9/v1 sources
DECOMPOSERL_EVALUATION_CONTEXT=0 sources
fetch
fetch hovr
fetch hover
fetch hover --corpora new
fetch hover --corpora new --mirror example.org
fetch hover --corpora claims.jsonl --accept-terms
fetch scitab --corpora new --accept-terms --mirror http://127.0.0.1:1
fetch wice --list --corpora s3://bucket/x
doctor --experiment paper_8b
doctor --data s3://bucket/x
DECOMPOSERL_SYSTEMS=absent.toml doctor
DECOMPOSERL_SYSTEMS=systems.toml doctor
verify
verify claims.jsonl --claim "The mill is old."
verify --claim "The mill is old."
verify --claim "" --evidence evidence.txt
verify --claim "The mill is old." --evidence absent.txt
verify --claim "The mill is old." --evidence empty.txt
verify claims.jsonl --evidence evidence.txt
verify claims.jsonl --rerank
verify bare.jsonl
verify bare.jsonl --retrieve absent
verify bare.jsonl --retrieve empty
verify claims.jsonl --html claims.jsonl/page.html
verify claims.jsonl --system cot-rules-faithfull
verify claims.jsonl --system decomposerl-tiny --data empty
verify claims.jsonl --systems absent.toml
verify --claim "The mill was built in 1840." --evidence evidence.txt
verify --claim "The mill was built in 1841." --evidence evidence.txt
verify damaged.jsonl
verify latin.jsonl
verify empty.txt
verify absent.jsonl
verify empty
view absent.jsonl --html page.html
view damaged.jsonl --html page.html
view claims.jsonl --html page.html
view table.parquet --html page.html
view empty.txt --html absent/page.html
view --data empty --html page.html
view --data world --html page.html --system nobody
view --data world --html page.html --benchmark nothing
view --data world --html page.html --run nothing
view --limit -1
view --port 99999
attrition --data absent
attrition --data empty
attrition --data world --by-reason --against paper
attrition --data world --by-reason --lexical-threshold 0.8
attrition --data world --semantic-threshold 0.5
attrition --data world --lexical-threshold 1.5
attrition --data empty --semantic-threshold 0.8
attrition --against ours
attrition --format yaml
leaderboard --data empty
leaderboard --data empty --format aggrefact
leaderboard --format html
leaderboard --data broken
metrics
metrics predictions.jsonl
metrics predictions.jsonl labels.jsonl
metrics predictions.jsonl labels.jsonl --verdict said --label none
metrics predictions.jsonl labels.jsonl --verdict none
metrics extra.jsonl labels.jsonl --verdict said
metrics extra.jsonl labels.jsonl --verdict said --extra skip
metrics predictions.jsonl labels.jsonl --verdict said
metrics predictions.jsonl labels.jsonl --verdict said --positive Supported
metrics predictions.jsonl labels.jsonl --verdict said --missing perhaps
metrics predictions.jsonl labels.jsonl --verdict said --id nothing
metrics predictions.jsonl labels.jsonl --verdict said --id ,
metrics predictions.jsonl labels.jsonl --verdict said --by-order
metrics predictions.jsonl labels.jsonl --verdict said --where kind
metrics predictions.jsonl labels.jsonl --verdict said --where kind=nothing
metrics predictions.jsonl labels.jsonl --verdict said --drop maybe --group nothing
metrics predictions.jsonl labels.jsonl --verdict said --positive yes --negative yes
metrics predictions.jsonl labels.jsonl --verdict said --draws -1
metrics predictions.jsonl labels.jsonl --verdict said --threshold 0.5
metrics predictions.jsonl labels.jsonl --score value --choose f1
metrics predictions.jsonl labels.jsonl --score value --dev-labels labels.jsonl
metrics predictions.jsonl labels.jsonl --drop maybe --score said
metrics damaged.jsonl labels.jsonl --verdict said
metrics absent.csv labels.jsonl --verdict said
metrics empty.txt labels.jsonl --verdict said
metrics table.parquet labels.jsonl --verdict said
metrics predictions.jsonl labels.jsonl --verdict said --records rows
metrics twice.jsonl labels.jsonl --missing skip --verdict said
metrics --marks absent.jsonl
metrics --marks damaged.jsonl
metrics predictions.jsonl --marks damaged.jsonl
export-inspect
export-inspect cot-rules-faithful
export-inspect cot-rules-faithful --out logs --benchmarks fevr --data empty
export-inspect cot-rule-faithful --out logs --data empty
pull
DECOMPOSERL_DATA=s3://bucket/x pull ../x
DECOMPOSERL_DATA=s3://bucket/x pull /etc/hosts
run
run deduplicate --data empty
run deduplicated --data empty
run claims/hovr --data empty
run deduplicated --config absent.yaml --data empty
run deduplicated --config claims.jsonl --data empty
run deduplicated --config damaged.yaml --data empty
run deduplicated --config list.yaml --data empty
build-pages wiki
build-pages hover
build-pages hover --corpora new
build-pages hover --corpora new --from absent.bz2
build-pages fever --corpora new --from claims.jsonl
build-pages hover --corpora new --only-needed --from empty
train
train tinny --data empty
train tiny --seed 9 --data empty
train tiny --seed -1
train tiny --steps 0
train tiny --report-to paper
train tiny --config list.yaml --data empty
evaluate --data empty
evaluate cot-rules-faithfull --data empty
evaluate cot-rules-faithful --benchmarks fevr --data empty
evaluate cot-rules-faithful --data empty
evaluate cot-rules-faithful --benchmarks fever --data empty
evaluate cot-rules-faithful --limit 1
evaluate cot-nearly-faithful --systems taken.toml --data empty
evaluate cot-rules-faithful --systems key.toml --data empty
evaluate cot-rules-faithful --systems systems.toml --data empty
evaluate --list --systems method.toml
evaluate --list --systems latin.jsonl
score
score absent.jsonl
score damaged.jsonl
score empty.txt
score claims.jsonl --weight diversity
score claims.jsonl --weight variety=1
score claims.jsonl --labelled-share 2
score traces.jsonl --judge-calls table.parquet
score traces.jsonl --judge-calls absent.parquet
score claims.jsonl --abstention never
score traces.jsonl --out claims.jsonl/table.parquet
score latin.jsonl
score half.jsonl
score half.jsonl --allow-unreadable
serve-rewards --port 70000
serve-rewards --at-once 0
serve-rewards --weight diversity=much
serve-rewards --judge-calls absent.parquet
rehearse --experiment tinny
rehearse --config absent.yaml --data new_data
accept --data empty
accept --data world --system nobody
accept --data broken
init
init corpora
init corpus
init corpus Mine --corpora new --from labelled.jsonl
init corpus hover --corpora new --from labelled.jsonl
init corpus mine --from claims.jsonl
init corpus mine --corpora new
init corpus mine --corpora new --preview 3
init corpus mine --corpora new --preview 0
init corpus mine --corpora new --from absent.csv
init corpus mine --corpora new --from empty.txt
init corpus mine --corpora new --from damaged.jsonl
init corpus mine --corpora new --from predictions.jsonl
init corpus mine --corpora new --from claims.jsonl --label nothing
init corpus mine --corpora damaged --from claims.jsonl
init systems --systems systems.toml
init systems --systems claims.jsonl/systems.toml
""".splitlines()


def command_entries(folder: Path) -> Mapping[str, Any]:
    """The options of each command, and exit code and last error line of each wrong call."""
    write_files(folder)
    return {"options": option_names(), "wrong calls": {x: answer(x, folder) for x in WRONG_CALLS}}


def answer(line: str, folder: Path) -> str:
    """The exit code and the last line on standard error, without the paths of this machine."""
    words = shlex.split(line)
    variables = [word for word in words if re.match(r"[A-Z_]+=", word)]
    given = dict(word.split("=", 1) for word in variables)
    folders = {
        "DAGSTER_HOME": "history",
        "DECOMPOSERL_DATA": "data",
        "DECOMPOSERL_SCRATCH": "scratch",
    }
    with plain_environment(**(folders | given)):
        done = CliRunner().invoke(app, words[len(variables) :])
    return f"{done.exit_code}: {_last_line(done, folder)}"


def _last_line(done: Result, folder: Path) -> str:
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {done.exception}"
    lines = [line.strip(_FRAME) for line in _ANSI.sub("", done.stderr).splitlines()]
    last = next(filter(None, reversed(lines)), "")
    return last.replace(str(folder.resolve()), "FOLDER").replace(str(ROOT), "PROJECT")


def write_files(folder: Path) -> None:
    """The files that the wrong calls name: small, some of them damaged."""
    for name in ("empty", "broken"):
        (folder / name).mkdir()
    for name, rows in _ROWS.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name, text in _TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "latin.jsonl").write_bytes('{"claim": "Das Café"}\n'.encode("latin-1"))
    pl.DataFrame({"id": ["a"], "number": [1]}).write_parquet(folder / "table.parquet")
    build_catalogue(build(folder / "world").data)


_CLAIM = {"claim": "Ada Holm built the mill.", "evidence": "Ada Holm built the mill in 1840."}
_GOLD = ("Supported", "Refuted", "maybe", "Refuted")
_LABELS = [
    {"id": name, "label": label, "kind": "plain"} for name, label in zip("abcd", _GOLD, strict=True)
]
_SAID = [{"id": one["id"], "said": "Refuted", "value": 0.25} for one in _LABELS]
_ROWS = {
    "claims.jsonl": [_CLAIM],
    "bare.jsonl": [{"claim": _CLAIM["claim"]}],
    "labelled.jsonl": [_CLAIM | {"label": label} for label in (*_GOLD[:2], *_GOLD)],
    "traces.jsonl": [_CLAIM | {"trace": "<think>x</think>"}],
    "half.jsonl": [_CLAIM | {"trace": "<think>x</think>"}, _CLAIM],
    "labels.jsonl": _LABELS,
    "predictions.jsonl": _SAID,
    "extra.jsonl": [*_SAID[:3], {"id": "e", "said": "Refuted", "value": 0.75}],
    "twice.jsonl": [*_SAID[:1], {"id": "a", "said": "Supported", "value": 1.0}],
}
_TEXTS = {
    "empty.txt": "",
    "evidence.txt": "The mill was built in 1840.\n",
    "damaged.jsonl": '{"claim": "Ada", "evidence": 7}\n{"claim": \n',
    "damaged.yaml": "ops: [\n",
    "list.yaml": "- ops\n",
    "systems.toml": '[mine]\nmethod = "cot"\nmodle = "some/model"\n',
    "method.toml": '[mine]\nmethod = "cott"\nmodel = "some/model"\n',
    "taken.toml": '[cot-rules-faithful]\nmethod = "cot"\nmodel = "m"\nbase_url = "http://a/v1"\n',
    "key.toml": '[mine]\nmethod = "cot"\nmodel = "m"\nbase_url = "http://a/v1"\nkey = "sk-123"\n',
    "damaged/mine/source.toml": 'name = "mine"\n[claims\n',
    "keys/hover/source.toml": 'name = "hover"\nfiles = []\n',
    "broken/leaderboard.parquet": "no table\n",
    "broken/accepted.json": "{",
}
