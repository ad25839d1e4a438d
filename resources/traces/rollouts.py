"""Rollouts of training runs as traces, with what rewards and judge said of them.

Each split of a run is a system of its own, ``tiny/held_out_greedy``, so that a claim's traces at
step 0, 10, 20 follow each other.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from decomposerl.baselines.method import ParseStatus
from decomposerl.errors import SourceFileError
from decomposerl.reports.trace_page.items import (
    Judged,
    ShownReward,
    ShownRuling,
    TraceItem,
    TraceOrigin,
)
from decomposerl.rewards.scoring import TOTAL
from decomposerl.schemas import JUDGE_CALLS, REWARDS, ROLLOUTS
from decomposerl.traces.grammar import labels_behind, parse_trace
from decomposerl.training.curves import Split
from resources.store.integrity import read_parquet, scan_parquet
from resources.traces.files import Warn, naming, no_warning, read_named, readable
from resources.training.rollout_log import LogFile, LogTable, files
from resources.training.run_store import RunFolder, read_key

SPLITS: tuple[Split, ...] = ("held_out_greedy", "held_out_sampled", "train")
_TITLES: dict[Split, str] = {
    "held_out_greedy": "held-out claims, greedy",
    "held_out_sampled": "held-out claims, sampled",
    "train": "training claims",
}
_COLUMNS = {"rollouts": ROLLOUTS, "rewards": REWARDS, "judge_calls": JUDGE_CALLS}
_EVIDENCE = ("training_claims", "training_claims_random", "silver_decomposed")
_TEXT = ["claim_id", "evidence"]
_RECORD = "run.json"
_Key = tuple[int, str, int]
"""Step, claim and number of a rollout."""


class _Rows(NamedTuple):
    """Rows of rewards and judge calls by rollout."""

    rewards: Mapping[_Key, list[dict[str, Any]]]
    calls: Mapping[_Key, list[dict[str, Any]]]


@dataclass
class RunSplit:
    """One split of a recipe's run; at most ``limit`` claims (0: all).

    ``base`` names the model that was trained. Damaged files and those of another version are left
    out; ``warn`` receives a line for each.
    """

    folder: Path
    split: Split
    limit: int = 0
    base: str = ""
    warn: Warn = no_warning
    _by_claim: dict[str, list[int]] = field(default_factory=dict, init=False)

    @property
    def system(self) -> str:
        """The name on the page: recipe and split."""
        return f"{self.folder.name}/{self.split}"

    @property
    def title(self) -> str:
        """The system in words."""
        return f"{self.folder.name}, {_TITLES[self.split]}"

    @cached_property
    def _logs(self) -> dict[LogTable, list[LogFile]]:
        tables: tuple[LogTable, ...] = ("rollouts", "rewards", "judge_calls")
        return {table: self._files(table) for table in tables}

    def _files(self, table: LogTable) -> list[LogFile]:
        columns, what = _COLUMNS[table].schema, f"table of {table.replace('_', ' ')}"
        every = read_named(self.folder / _RECORD, lambda _: files(self.folder, table, self.split))
        return [file for file in every if readable(file.path, columns, what, self.warn)]

    @property
    def paths(self) -> list[Path]:
        """The files that are read.

        Raises:
            SourceFileError: the run's record cannot be read.
        """
        return [file.path for each in self._logs.values() for file in each]

    def claim_ids(self) -> list[str]:
        """The claim of each trace, in the order in which the run sampled them."""
        self._by_claim.clear()
        every: list[str] = []
        for file in self._logs["rollouts"]:
            read = read_named(file.path, lambda path: read_parquet(path, ["group"]))
            groups = read["group"].to_list()
            for name in dict.fromkeys(groups):
                if not self.limit or name in self._by_claim or len(self._by_claim) < self.limit:
                    self._by_claim.setdefault(name, []).append(file.step)
            every += [name for name in groups if name in self._by_claim]
        return every

    def items(self, claim_ids: Sequence[str]) -> Iterator[TraceItem]:
        """The traces of these claims, by step and number."""
        wanted = [name for name in claim_ids if name in self._by_claim]
        steps = {step for name in wanted for step in self._by_claim[name]}
        said = _Rows(
            _by_rollout(self._read("rewards", steps, wanted)),
            _by_rollout(self._read("judge_calls", steps, wanted)),
        )
        evidence = self._evidence(wanted)
        for _, frame in self._read("rollouts", steps, wanted):
            for row in frame.iter_rows(named=True):
                with naming(self.folder):
                    item = self._item(row, said, evidence.get(row["group"], ""))
                yield item

    def _read(
        self, table: LogTable, steps: set[int], claim_ids: Sequence[str]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        for file in self._logs[table]:
            if file.step in steps:
                rows = read_named(file.path, read_parquet)
                yield file.step, rows.filter(pl.col("group").is_in(list(claim_ids)))

    def _evidence(self, claim_ids: Sequence[str]) -> dict[str, str]:
        """The text that judge and rewards read, from the run's copies, else the data folder's."""
        copies = RunFolder(self.folder).inputs(read_key(RunFolder(self.folder)))
        data = self.folder.parent.parent
        paths = [copies / "claims.parquet", copies / "held_out.parquet"]
        paths += [data / f"{name}.parquet" for name in _EVIDENCE]
        found: dict[str, str] = {}
        for path in (path for path in paths if path.is_file()):
            missing = [name for name in claim_ids if name not in found]
            with suppress(SourceFileError):  # then another file may have the text
                found |= dict(_texts(path, missing).iter_rows()) if missing else {}
        return found

    def _item(self, row: Mapping[str, Any], said: _Rows, evidence: str) -> TraceItem:
        key = (row["step"], row["group"], row["rollout"])
        verdict = row["verdict"]
        trace = parse_trace(row["completion"], labels_behind(verdict))
        unread = "truncated" if row["truncated"] else "unparsed"
        status = cast("ParseStatus", "parsed" if verdict else unread)
        recipe = self.folder.name
        judged = _judged(
            row[TOTAL], said.rewards.get(key, ()), said.calls.get(key, ()), len(trace.cycles)
        )
        return TraceItem(
            claim_id=row["group"],
            claim=row["claim"],
            evidence=evidence,
            origin=TraceOrigin(
                system=self.system,
                engine=f"policy of {recipe}, trained on {self.base}" if self.base else recipe,
                step=row["step"],
                rollout=row["rollout"],
                source=row["source"],
                method="decomposerl",
                model=recipe,
                protocol="trace",
                prompt_hash=row["prompt_digest"],
            ),
            verdict=verdict,
            status=status,
            cycles=trace.cycles,
            opening=trace.opening or "",
            reply=row["completion"],
            gold=row["label"],
            judged=judged,
            faults=tuple(row["faults"]),
            warnings=() if evidence else ("the claim's evidence is not on disk any more",),
        )


def run_splits(
    data: Path, runs: Sequence[str] = (), limit: int = 0, warn: Warn = no_warning
) -> list[RunSplit]:
    """The splits of the runs of a data folder that have rollouts; no name takes all runs.

    What cannot be read of them is left out; ``warn`` receives a line for each file.
    """
    folders = sorted(path.parent for path in data.glob(f"policy/*/{_RECORD}"))
    wanted = [folder for folder in folders if not runs or folder.name in runs]
    return [split for folder in wanted for split in _splits(folder, limit, warn)]


def _splits(folder: Path, limit: int, warn: Warn) -> list[RunSplit]:
    base = ""
    try:
        base = read_named(RunFolder(folder).config, _base)
    except SourceFileError as error:
        warn(f"the base model is not known: {error}")
    splits = [RunSplit(folder, split, limit, base, warn) for split in SPLITS]
    try:
        return [one for one in splits if one.paths]
    except SourceFileError as error:
        warn(f"left out: {error}")
        return []


def _base(config: Path) -> str:
    """The model that a run's settings name; empty without settings."""
    if not config.is_file():
        return ""
    base = str(json.loads(config.read_text("utf-8")).get("base", ""))
    return Path(base).name if base.startswith("/") else base


def _texts(path: Path, claim_ids: Sequence[str]) -> pl.DataFrame:
    """Id and evidence of these claims of a file."""
    wanted = pl.col("claim_id").is_in(list(claim_ids))
    return read_named(path, lambda file: scan_parquet(file).filter(wanted).select(_TEXT).collect())


def _by_rollout(frames: Iterable[tuple[int, pl.DataFrame]]) -> dict[_Key, list[dict[str, Any]]]:
    rows: dict[_Key, list[dict[str, Any]]] = defaultdict(list)
    for step, frame in frames:
        for row in frame.iter_rows(named=True):
            rows[step, row["group"], row["rollout"]].append(row)
    return rows


def _judged(
    total: float | None,
    rewards: Sequence[Mapping[str, Any]],
    calls: Sequence[Mapping[str, Any]],
    cycles: int,
) -> Judged:
    asked = [row for row in rewards if row["question"] is not None and row["question"] < cycles]
    findings, cosines = [""] * cycles, cast("list[float | None]", [None] * cycles)
    for row in asked:
        if row["reward"] == "necessity":
            findings[row["question"]] = row["state"]
        if row["reward"] == "diversity" and row["state"] == "compared":
            cosines[row["question"]] = 0.0 - row["value"]
    return Judged(
        rewards=tuple(
            ShownReward(row["reward"], row["value"], row["state"], row["weight"])
            for row in rewards
            if row["question"] is None and row["reward"] != TOTAL
        ),
        rulings=tuple(ShownRuling(**{name: row[name] for name in _RULING}) for row in calls),
        necessity=tuple(findings),
        cosines=tuple(cosines),
        total=total,
    )


_RULING = ("task", "role", "question", "value", "failure", "engine", "call_key")
