"""Single flipped bits in every kind of stored file, and what a reader then gets.

A flip is noticed where reading raises one of the project's errors, or where the entry counts as not
stored and is asked again. It is silent where other data are read.
"""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa

import fixture_data
from decomposerl.baselines.method import Verification
from decomposerl.chat import ChatReply, Template
from decomposerl.errors import DecomposeRLError
from resources.catalogue.database import FILE, build_catalogue, read_table
from resources.chat.reply_store import ReplyStore
from resources.evaluation.runner import Prediction, PredictionStore
from resources.store.chat_replies import replies_in
from resources.store.integrity import (
    DIGESTS,
    file_sha256,
    read_parquet,
    read_record,
    record_folder,
    run_path,
    verified,
    write_record,
)
from resources.store.parquet import write_parquet
from resources.store.result_store import ResultStore

Entries = dict[str, object]
"""What a reader gets, by name; what is missing is made or asked again."""
KEYS = [f"{number:032x}" for number in range(300)]
_IDS = [f"{number:016x}" for number in range(40)]


class Kind(NamedTuple):
    """A kind of stored file: its path, and a reader of it and of what belongs to it."""

    name: str
    file: Path
    read: Callable[[], Entries]


def kinds(folder: Path) -> list[Kind]:
    """Files of every kind below a folder."""
    return [*_tables(folder), *_run(folder / "run"), *_stores(folder / "stores")]


def flips(kind: Kind, count: int, seed: int) -> Iterator[tuple[str, int, str]]:
    """Flip bits of a file, one at a time, and read it: the kind, the bit and the outcome."""
    whole, expected = kind.file.read_bytes(), kind.read()
    beside = set(kind.file.parent.iterdir())
    drawn = random.Random(f"{seed} {kind.name}")
    for bit in drawn.sample(range(8 * len(whole)), count):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        kind.file.write_bytes(changed)
        os.utime(kind.file, (bit, bit))  # long ago: a decaying disk touches no file
        yield kind.name, bit, _outcome(kind, expected)
        for path in set(kind.file.parent.iterdir()) - beside:
            path.unlink()
        kind.file.write_bytes(whole)


def _outcome(kind: Kind, expected: Entries) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            entries = kind.read()
        except DecomposeRLError:
            return "noticed"
    if any(entries[name] != expected.get(name) for name in entries):
        return "silent"
    return "noticed" if len(entries) < len(expected) else "unchanged"


def _tables(folder: Path) -> list[Kind]:
    """A stage's table, its side table, its record and the catalogue."""
    names, data = ("decontaminated.parquet", "drops/decontaminated.parquet"), folder / "data"
    table, side = (data / name for name in names)
    for path in (table, side):
        write_parquet(pl.DataFrame({"claim_id": _IDS, "claim": _IDS[::-1]}), path)
    record = run_path(data, "decontaminated")
    files = {name: file_sha256(data / name) for name in names}
    write_record(record, {"stage": "decontaminated", "rows_kept": len(_IDS)}, files)
    catalogue = build_catalogue(fixture_data.build(folder / "catalogue").data)
    return [
        Kind("table", table, lambda: {"rows": read_parquet(table).rows()}),
        Kind("side table", side, lambda: {"rows": read_parquet(side).rows()}),
        Kind("record", record, lambda: {"rows": read_record(record)["rows_kept"]}),
        Kind(FILE, catalogue, lambda: {"rows": read_table(catalogue.parent, "stage_runs").rows()}),
    ]


def _run(folder: Path) -> list[Kind]:
    """A training run's files, which its end records, and a checkpoint."""
    names = ("adapter/model.safetensors", "outcome.json", "curves.parquet", "checkpoint/state.pt")
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(0).randbytes(4_000))
    record_folder(folder / "checkpoint", "Delete it")
    record_folder(folder, "Restore it", without=("checkpoint",))

    def reader(path: Path) -> Callable[[], Entries]:
        return lambda: {"bytes": verified(path).read_bytes()}

    digests = Kind(DIGESTS, folder / DIGESTS, reader(folder / "outcome.json"))
    return [*(Kind(path.name, path, reader(path)) for path in paths), digests]


def _stores(folder: Path) -> list[Kind]:
    """Chat replies, results of an engine, and predictions."""
    replies, shards = folder / "chat" / "replies.sqlite", folder / "shards"
    with ReplyStore(replies, "model") as store:
        for number, key in enumerate(KEYS):
            reply = ChatReply(f"Reply {key} " * (number % 60), "stop", "model", number, 2, 0.5)
            store.put(key, reply, Template("silver", "0f"))

    def read_replies() -> Entries:
        with ReplyStore(replies, "model") as store:
            return {key: repr(reply) for key, reply in store.get(KEYS).items()}

    ResultStore(shards, "engine").write(KEYS, pa.array([number / 7 for number in range(300)]))

    def read_results() -> Entries:
        parts = ResultStore(shards, "engine").read({key: row for row, key in enumerate(KEYS)})
        return {
            KEYS[row]: value
            for rows, values in parts
            for row, value in zip(rows, values.to_pylist(), strict=True)
        }

    def predictions() -> PredictionStore:
        return PredictionStore(folder / "predictions", "engine", "system", "0f")

    verification = Verification("Supported", "parsed", "Because of the evidence. " * 9)
    predictions().add([Prediction(one, verification, None, ()) for one in _IDS])
    (shard,), (predicted,) = shards.glob("*.parquet"), folder.glob("predictions/*/*.parquet")
    return [
        Kind("replies", replies, read_replies),
        Kind("table of replies", replies, lambda: {r[0]: r for r in replies_in(replies).rows()}),
        Kind("results", shard, read_results),
        Kind("predictions", predicted, lambda: dict(predictions().read(_IDS))),
    ]
