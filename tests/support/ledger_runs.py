"""The ledger's slow rows: whole runs of the graph, of the real corpora and of the trainer.

Each runs the project's own commands as programs, in a folder of its own, and keeps what they leave.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ledger import Row, UnavailableError, digest, table
from ledger_stores import command_words, plain_environment
from project import ROOT

RUN_COLUMNS: Mapping[str, str] = {
    "latency_s": "seconds of a call",
}
"""Columns that differ between two runs, with why."""
ROUNDING = 1e-6
"""What another processor's rounding may change of a cosine; the funnel reports what is nearer."""
FLOATS = {"*.values.*": ROUNDING, "*.mean": ROUNDING, "*.objective.*": 10 * ROUNDING}  # a sum
POLICY = "decomposerl-tiny"


def run_program(words: list[str], folder: Path, **environment: str) -> str:
    """Standard output of a program that succeeds, in a folder, on the data folder beside it."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=plain_environment(folder, **environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stdout[-2_000:]}\n{done.stderr[-2_000:]}")
    return done.stdout


def processor() -> str:
    """The family of this machine's processor, and the widest instructions that torch uses on it."""
    import torch

    info = Path("/proc/cpuinfo")
    text = info.read_text("utf-8") if info.is_file() else ""
    fields = dict(re.findall(r"^(vendor_id|cpu family|model)\s*: (.+)$", text, re.MULTILINE))
    family = " ".join(fields.values()) or platform.processor()
    return f"{platform.machine()} {family} {torch.backends.cpu.get_cpu_capability()}"


# == Tables ==


def compact(frame: pl.DataFrame) -> dict[str, Any]:
    """``table`` without the columns of a run; a column is one line unless it has numbers."""
    shown = table(frame, without=tuple(RUN_COLUMNS))
    columns = {name: one_line(column) for name, column in shown["columns"].items()}
    return {"row count": shown["rows"], **columns}  # tables have columns named rows


def one_line(column: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Type and hash of a column; its floats, where it has any."""
    content = column["content"]
    if isinstance(content, str):
        return f"{column['type']} {content}"
    empty = all(value is None for value in content["values"])
    nothing = empty and content["mean"] is None
    return f"{column['type']} null" if nothing else {"type": column["type"], **content}


def tables_of(data: Path, left_out: tuple[str, ...]) -> dict[str, Any]:
    """Each Parquet file of a data folder by its path, but not those with a part in ``left_out``.

    The files of many systems in one folder are one table, by their names.
    """
    tables: dict[str, Any] = {}
    for folder, paths in folders_of(data, left_out):
        if folder.startswith(("predictions/", "calls/", "scores/")):
            named = [pl.read_parquet(path).with_columns(file=pl.lit(path.stem)) for path in paths]
            tables[f"{folder}/*"] = compact(pl.concat(named))
        else:
            for path in paths:
                tables[path.relative_to(data).as_posix()] = compact(pl.read_parquet(path))
    return tables


def folders_of(data: Path, left_out: tuple[str, ...]) -> Iterator[tuple[str, list[Path]]]:
    """The folders that have Parquet files, with those files, in order."""
    by_folder: dict[str, list[Path]] = {}
    for path in sorted(data.rglob("*.parquet")):
        relative = path.relative_to(data)
        if not set(left_out) & set(relative.parts):
            by_folder.setdefault(relative.parent.as_posix(), []).append(path)
    yield from by_folder.items()


def stage_accounts(data: Path) -> dict[str, str]:
    """For each stage's last run its rows in, kept, dropped and rejected, its engines and status."""
    accounts = {}
    for path in sorted(data.glob("stage_runs/**/*.json")):
        run = json.loads(path.read_text("utf-8"))
        rows = [run[f"rows_{name}"] for name in ("in", "kept", "dropped", "rejected")]
        engines = (run["engine"], run["step_engines"], run["status"])
        accounts[path.stem] = f"{rows} {' '.join(map(str, engines))}"
    return accounts


# == make demo ==


NOT_OF_THE_DEMO = ("engine_results", "prediction_shards", "sample", "policy")
"""Memories of engines, the corpora that the sample's own tests cover, and what training makes."""


def demo(folder: Path) -> dict[str, Any]:
    """Every table of ``make demo``, the catalogue's names, and what it prints.

    The trained policy samples, so what follows from it is compared on one family of processors
    alone; the row ``training`` has more of it.
    """
    printed = run_program([sys.executable, "-m", "dagster_project"], folder)
    data, accounts = folder / "data", stage_accounts(folder / "data")
    funnel, _, rest = plain_text(printed, data).partition("\ntraining:")
    of_policy = {name: one for name, one in accounts.items() if POLICY in name}
    its_tables = (f"{POLICY}.parquet", "leaderboard.parquet", "comparison.parquet")
    return {
        "processor": processor(),
        "tables": tables_of(data, (*NOT_OF_THE_DEMO, *its_tables)) | without_policy(data),
        "stages": {name: one for name, one in accounts.items() if POLICY not in name},
        "catalogue": catalogue_names(data / "decomposerl.duckdb"),
        "printed": funnel.splitlines(),
        "trained": trained_tables(data) | {"stages": of_policy, "printed": rest.splitlines()},
    }


def plain_text(printed: str, data: Path) -> str:
    """The text without the folder's path, seconds, and the lines of a stage that takes long."""
    text = printed.replace(str(data), "DATA")
    text = re.sub(r"( +[\d.]+ (s|min|h)\b)+", " TIME", text)
    return re.sub(r"^  [\w/]+: TIME.*\n", "", text, flags=re.MULTILINE)


def without_policy(data: Path) -> dict[str, Any]:
    """The boards without the policy's rows and without places, which depend on them."""
    board = pl.read_parquet(data / "leaderboard.parquet").filter(pl.col("system") != POLICY)
    pairs = pl.read_parquet(data / "comparison.parquet")
    others = pairs.filter(pl.col("system") != POLICY, pl.col("other") != POLICY)
    return {
        "leaderboard, rules": compact(board.drop("place")),
        "comparison, rules": compact(others.drop("p_holm")),
    }


def trained_tables(data: Path) -> dict[str, Any]:
    """The tables that have anything of the trained policy; those of each training step as one."""
    boards = {
        f"{name}.parquet": compact(pl.read_parquet(data / f"{name}.parquet"))
        for name in ("leaderboard", "comparison")
    }
    for path in sorted(data.glob(f"*/*/{POLICY}.parquet")):
        boards[path.relative_to(data).as_posix()] = content_of(path)
    for folder, paths in folders_of(data / "policy", ("inputs",)):
        boards[f"policy/{folder}"] = {path.name: content_of(path) for path in paths}
    return boards


def content_of(path: Path) -> str:
    """Rows, and one hash of all columns that no clock decides."""
    frame = pl.read_parquet(path)
    if "measure" in frame.columns:
        frame = frame.filter(~pl.col("measure").str.starts_with("seconds"))
    return f"{frame.height} {digest(compact(frame))}"


def catalogue_names(file: Path) -> list[str]:
    """Schema, name and kind of each table and view of a DuckDB catalogue."""
    import duckdb

    query = (
        "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY ALL"
    )
    with duckdb.connect(str(file), read_only=True) as connection:
        return [" ".join(row) for row in connection.execute(query).fetchall()]


# == The real corpora ==


CORPORA = ROOT.parent / "shared" / "corpora"
VECTORS = ROOT / ".pytest_cache/d/vectors/embedder"
"""Where the tests on the real corpora keep their vectors, by engine and text."""
REAL_STAGES = (
    "rule_filtered",
    "difficulty_band",
    "deduplicated",
    "decontaminated",
    "silver_decomposed",
)


def real_corpora(folder: Path) -> dict[str, Any]:
    """Each table of the funnel on the real corpora, and per source what was kept and dropped.

    Embedding their texts takes minutes, so vectors are kept between runs, by engine and text.
    """
    if not CORPORA.is_dir():
        raise UnavailableError(f"the real corpora are not in {CORPORA}")
    data, stored = folder / "data", folder / "data/engine_results/embedder"
    if VECTORS.is_dir():
        shutil.copytree(VECTORS, stored)
    words = ["run", "silver_decomposed", "--upstream"]
    run_program([*command_words(), *words], folder, DECOMPOSERL_CORPORA=str(CORPORA))
    keep_vectors(stored)
    return {
        "processor": processor(),
        "kept": kept_by_source(data),
        "dropped": dropped_by_reason(data),
        "stages": stage_accounts(data),
        "tables": tables_of(data, ("engine_results",)),
    }


def keep_vectors(stored: Path) -> None:
    """Replace the kept vectors, whole or not at all."""
    VECTORS.parent.mkdir(parents=True, exist_ok=True)
    copy = shutil.copytree(stored, VECTORS.with_name(f"copy-{os.getpid()}"))
    shutil.rmtree(VECTORS, ignore_errors=True)
    copy.rename(VECTORS)


def kept_by_source(data: Path) -> dict[str, dict[str, int]]:
    """The rows of each source that each stage kept."""
    return {
        stage: dict(
            pl.read_parquet(data / f"{stage}.parquet")["source"]
            .value_counts(sort=True)
            .sort("source")
            .rows()
        )
        for stage in REAL_STAGES
    }


def dropped_by_reason(data: Path) -> dict[str, dict[str, int]]:
    """The rows that each stage dropped, by source, step and reason."""
    dropped = {}
    for stage in REAL_STAGES:
        counted = pl.read_parquet(data / f"drops/{stage}.parquet").group_by(
            "source", "step", "reason"
        )
        rows = counted.len().sort("source", "step", "reason").rows()
        dropped[stage] = {f"{source} {step} {reason}": n for source, step, reason, n in rows}
    return dropped


# == Training ==


PEOPLE = "Arlo Brin,Cato Dena,Emre Fina,Goran Hild,Ivo Jara,Kian Lotte,Mira Nils,Orla Pavo".split(
    ","
)
PLACES = "Varnholt Quessa Iskeby Torvane Melqart".split()
STEPS, TRAINED_ON, HELD_OUT = 20, 48, 8
CONFIG = f"ops: {{policy: {{config: {{held_out_claims: {HELD_OUT}}}}}}}\n"


def training(folder: Path) -> dict[str, Any]:
    """Twenty steps of the bundled tiny policy on 48 claims: curves, rollouts, adapter.

    A processor decides the last bits of its sums, and these what is sampled: curves, rollouts and
    adapter are compared on one family of processors alone. Elsewhere it is the means of the last
    steps, within what another sample may change; the policy's reward rises by more. A run whose key
    changes begins anew.
    """
    data = folder / "data"
    data.mkdir()
    write_training_claims(data)
    config = folder / "config.yaml"
    config.write_text(CONFIG, "utf-8")
    run_program([*command_words(), "run", "base_policy"], folder)
    words = ["train", "tiny", "--steps", str(STEPS), "--config", str(config)]
    run_program([*command_words(), *words], folder)
    run = data / "policy/tiny"
    curves = pl.read_parquet(run / "curves.parquet")
    weights = (run / "adapter/adapter_model.safetensors").read_bytes()
    return {
        "processor": processor(),
        "curves": curve_lines(curves),
        "rollouts": {path.name: text_hash(path) for path in sorted(run.glob("rollouts/*.parquet"))},
        "adapter": hashlib.sha256(weights).hexdigest(),
        "schema": [f"{name} {kind}" for name, kind in curves.schema.items()],
        "key": [path.name for path in sorted(run.glob("inputs/*"))],
        "ends": ends_of(curves),
    }


def write_training_claims(data: Path) -> None:
    """Training claims, and as silver claims these and the held-out ones."""
    from decomposerl.schemas import SILVER_DECOMPOSED, TRAINING_CLAIMS

    rows = [claim_row(number) for number in range(TRAINED_ON + HELD_OUT)]
    for schema, chosen in ((SILVER_DECOMPOSED, rows), (TRAINING_CLAIMS, rows[:TRAINED_ON])):
        plain = [{name: row[name] for name in schema.schema} for row in chosen]
        frame = pl.DataFrame(plain, schema=schema.schema)
        frame.write_parquet(data / f"{schema.name}.parquet")


def claim_row(number: int) -> dict[str, Any]:
    """A claim of two parts; of every second one a part is wrong."""
    who, where = PEOPLE[number % len(PEOPLE)], PLACES[number % len(PLACES)]
    year, right = 1900 + number, number % 2 == 0
    evidence = [
        f"{who} opened the harbour of {where} in {year}.",
        f"{who} was born in {PLACES[(number + 3) % len(PLACES)]}.",
    ]
    label = "Supported" if right else "Refuted"
    return {
        "claim_id": f"{number:016x}",
        "source": "hover",
        "native_id": str(number),
        "split": "train",
        "claim": f"{who} opened the harbour of {where} in {year if right else year - 50}.",
        "evidence": "\n".join(evidence),
        "passages": evidence,
        "evidence_kind": "text",
        "label": label,
        "native_label": label,
        "label_rule": "drop_middle",
        "document_id": f"page {number}",
        "subset": None,
        "num_hops": None,
        "evidence_words": 13,
        "evidence_tokens": 17,
        "token_unit": "words_x1.3",
        "overlap": 0.5,
        "entities": [who.lower(), where.lower()],
        "support_probability": 0.5,
        "label_confidence": 0.5,
        "questions": [f"Who opened the harbour of {where}?", "In which year was it opened?"],
        "n_star": 2,
        "bucket": f"{label}|hover",
        "origin": "selected",
        "selection_rank": None,
        "selection_gain": None,
    }


def curve_lines(curves: pl.DataFrame) -> dict[str, str]:
    """The mean of each measure but seconds at each step, six digits, by split and measure."""
    timed = pl.col("measure").str.starts_with("seconds")
    by = (
        curves.filter(~timed)
        .sort("split", "measure", "step")
        .group_by("split", "measure", maintain_order=True)
    )
    return {
        f"{split} {measure}": " ".join("-" if m is None else f"{m:.6g}" for m in part["mean"])
        for (split, measure), part in by
    }


def text_hash(path: Path) -> str:
    """One hash of what the policy wrote in a step."""
    frame = pl.read_parquet(path)
    texts = frame.select(pl.col(pl.String)).to_dict(as_series=False)
    return f"{frame.height} {digest(texts)}"


def ends_of(curves: pl.DataFrame) -> dict[str, float]:
    """The means of the last five steps of the measures that tell whether it learns."""
    wanted = ("total", "format", "verification", "truncated")
    last = curves.filter(pl.col("split") == "train", pl.col("step") > STEPS - 5)
    return {name: last.filter(measure=name)["mean"].mean() for name in wanted}


SLOW: tuple[Row, ...] = (
    Row("demo", demo, fast=False, tolerances=FLOATS, bound=("trained.*",)),
    Row("real_corpora", real_corpora, fast=False, tolerances=FLOATS),
    Row(
        "training",
        training,
        fast=False,
        tolerances={"ends.*": 0.25, "ends.total": 0.8},
        bound=("curves.*", "rollouts.*", "adapter"),
    ),
)
