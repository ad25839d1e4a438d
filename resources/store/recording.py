"""A stage's frames as a ``MaterializeResult`` with metadata for the UI.

Rows in, kept, dropped by reason and source, labels, tokens, engines, settings, a short sample.
"""

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

import dagster as dg
import polars as pl
from pydantic import BaseModel

from decomposerl.claims.load import LoadedClaims
from decomposerl.printable import printable
from decomposerl.reports import figures
from decomposerl.reports.giveaways import READ, giveaways, giveaways_text
from decomposerl.reports.stage_page import MOST_LEFT, StagePage, stage_page
from decomposerl.reports.stage_tally import StageTally
from decomposerl.reports.tables import frame_markdown
from resources.store.parquet import StageOutput, StageRun, table_of
from resources.store.rows import StoredRows
from resources.store.run_lock import data_folder_of
from resources.store.stage_writer import StageWriter

_DECIMALS = 4
_FOLDED = 1_000
_ROWS, _PARTITION_ROWS = "dagster/row_count", "dagster/partition_row_count"
_MEANING = {
    "not_available": "none of its files is in the corpora folder; the frame is empty",
    "off_by_terms": "its terms allow evaluation only; it gives no training claim",
    "empty": "one of its files is there and holds no row",
    "limited": "a short run over some of the claims, as the limit said; it is no measure",
    "nothing_to_ask": "no claim has both a label and evidence",
}


class Counted(Protocol):
    """An engine that counts what this run used it for."""

    @property
    def engine(self) -> str:
        """Name of the program behind the port."""
        ...

    @property
    def calls(self) -> int:
        """Items sent to the engine."""
        ...

    @property
    def hits(self) -> int:
        """Items answered from stored results."""
        ...

    def details(self) -> Mapping[str, int | float | str]:
        """Further counts by name: HTTP calls, money, failures by reason; and examples."""
        ...


class StageRecorder:
    """Created at the top of an asset; stops the clock and builds the output."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        settings: BaseModel | Mapping[str, Any] | None = None,
        *engines: Counted,
        part: str = "",
        entry: str = "",
    ) -> None:
        """``settings`` and the counts of ``engines`` are shown in the metadata.

        ``part`` is the partition, empty where the asset has none; ``entry`` the digest of the entry
        of ``systems.toml`` that is evaluated.
        """
        self._context, self._engines = context, engines
        plain = settings.model_dump() if isinstance(settings, BaseModel) else settings
        self._settings: dict[str, Any] = dict(plain or {})
        self._key = "/".join([*context.asset_key.path, *filter(None, [part])])
        self._entry = entry
        self._started = time.perf_counter()

    def writing(self, *inputs: StoredRows, drops: bool = True) -> StageWriter:
        """Where a stage writes what it makes of the rows of ``inputs``."""
        base = data_folder_of(self._context)
        return StageWriter(base, self._key, table_of(self._key), inputs, drops=drops)

    def result(
        self,
        out: StageWriter,
        extra: Mapping[str, Any] | None = None,
        engines: Mapping[str, str] | None = None,
        **beside: pl.DataFrame | None,
    ) -> dg.MaterializeResult[StageOutput]:
        """The materialization of a funnel stage whose rows are all written.

        ``engines`` are those of its steps, by default as its steps named them; ``beside`` are
        further frames of ``StageOutput``, by name.
        """
        engines = out.engines if engines is None else engines
        kept, drops = out.finish()
        tally, texts, names = out.tally, out.close_texts(), self._engine_names()
        page = stage_page(self._key, tally, self._settings, texts=texts, engines=names)
        run = self._run(tally.rows_in, tally.rows_kept, tally.rows_dropped)
        run = replace(run, step_engines=json.dumps(dict(engines)))
        output = StageOutput(kept, run, drops, **beside)
        metadata = self._metadata(page, output.run) | dict(extra or {})
        if engines:
            metadata["engine of each step"] = dg.MetadataValue.json(dict(engines))
        if output.pairs is not None:
            metadata |= {
                f"{kind} pairs": rows for kind, rows in output.pairs["kind"].value_counts().rows()
            }
        return dg.MaterializeResult(value=output, metadata=rounded(metadata))

    def loaded(
        self, out: StageWriter, loaded: LoadedClaims, extra: Mapping[str, Any] | None = None
    ) -> dg.MaterializeResult[StageOutput]:
        """The materialization of a source or benchmark read from native files.

        Its claims are written to ``out`` (``add_claims``).
        """
        kept, drops = out.finish()[0], loaded.drops
        tally = out.tally + StageTally.of(drops, drops=drops)
        page = stage_page(self._key, tally, self._settings)
        counts = loaded.rows_read, tally.rows_kept, drops.height, loaded.rejects.height
        run = self._run(*counts, loaded.status)
        metadata = self._metadata(page, run) | dict(extra or {})
        metadata |= {
            "status": loaded.status,
            "rows rejected": loaded.rejects.height,
            "rejects": dg.MetadataValue.md(_rejects_md(loaded.rejects)),
            "native files": dg.MetadataValue.json(list(loaded.files)),
            "giveaways": giveaways_text(giveaways(kept.batches(READ))) or "none",
        }
        if loaded.status != "ok":
            self._context.log.warning(f"{self._key}: {_MEANING.get(loaded.status, loaded.status)}")
        if loaded.rejects.height:
            self._context.log.warning(f"{self._key}: {_first_rejects(loaded.rejects)}")
        for path, others in loaded.unread.items():
            self._context.log.warning(
                f"{self._key}: {path} was read; other forms of it were not: {', '.join(others)}"
            )
        if labels := loaded.unknown_labels:
            self._context.log.warning(f"{self._key}: unknown labels: {labels}")
            metadata["unknown labels"] = labels
        if (listed := loaded.doubtful) is not None:
            metadata["doubtful labels"] = dict(listed["state"].value_counts().rows())
            if lost := listed.filter(pl.col("claim_id").is_null())["file", "row", "state"].rows():
                first = "; ".join(f"{file}:{row} {state}" for file, row, state in lost[:3])
                said = f"{self._key}: {len(lost):,} doubtful labels without effect, e.g. {first}"
                self._context.log.warning(printable(said, keep=""))
        output = StageOutput(kept, run, drops, loaded.rejects, doubtful=loaded.doubtful)
        return dg.MaterializeResult(value=output, metadata=rounded(metadata))

    def table(
        self, frame: pl.DataFrame, metadata: Mapping[str, Any]
    ) -> dg.MaterializeResult[StageOutput]:
        """The materialization of a report table, which neither keeps nor drops claims."""
        output = StageOutput(frame, self._run(frame.height, frame.height))
        shown = rounded({_ROWS: frame.height, **metadata})
        return dg.MaterializeResult(value=output, metadata=shown)

    def evaluated(
        self,
        frame: pl.DataFrame,
        rows_in: int,
        status: str,
        metadata: Mapping[str, Any],
        **beside: pl.DataFrame,
    ) -> dg.MaterializeResult[StageOutput]:
        """The materialization of predictions or scores, which drop no claims.

        ``beside`` are the further frames of ``StageOutput``, by name.
        """
        run = self._run(rows_in, frame.height, status=status)
        if status != "ok":
            said = f"{self._key}: {_MEANING.get(status, status)}"
            # A limit was asked for, and the leaderboard marks the row.
            self._context.log.log("INFO" if status == "limited" else "WARNING", said)
        rows = {_PARTITION_ROWS if self._context.has_partition_key else _ROWS: frame.height}
        shown: dict[str, Any] = {**rows, **metadata, "status": status, "seconds": run.seconds}
        if self._engines:
            shown |= self._counted(run)
        output = StageOutput(frame, run, **beside)
        return dg.MaterializeResult(value=output, metadata=rounded(shown))

    def _run(
        self, rows_in: int, kept: int, dropped: int = 0, rejected: int = 0, status: str = "ok"
    ) -> StageRun:
        run = StageRun(
            stage=self._key,
            run_id=self._context.run.run_id,
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.perf_counter() - self._started, 3),
            rows_in=rows_in,
            rows_kept=kept,
            rows_dropped=dropped,
            rows_rejected=rejected,
            engine=self._engine_names() or None,
            engine_calls=sum(engine.calls for engine in self._engines),
            engine_hits=sum(engine.hits for engine in self._engines),
            config=json.dumps(self._settings, sort_keys=True),
            status=status,
            entry=self._entry,
        )
        self._context.log.info(
            f"{self._key}: {run.rows_in:,} in, {run.rows_kept:,} kept, {run.rows_dropped:,} "
            f"dropped, {run.rows_rejected:,} rejected, {run.seconds:.1f} s, "
            f"{run.engine_calls:,} engine calls"
        )
        return run

    def _engine_names(self) -> str:
        return ", ".join(sorted({engine.engine for engine in self._engines}))

    def _metadata(self, page: StagePage, run: StageRun) -> dict[str, Any]:
        if page.struck:
            names = ", ".join(page.struck)
            self._context.log.warning(f"{self._key}: removed most of {names}; see its 'guard'")
        return {
            _ROWS: page.rows_kept,
            "kept and dropped": dg.MetadataValue.md(page.figure_md),
            "by source": dg.MetadataValue.md(page.by_source_md),
            "drops by reason": dg.MetadataValue.md(page.by_reason_md),
            **page.numeric,
            "label balance": dg.MetadataValue.md(page.label_balance_md),
            "sample": folded(page.sample_md),
            "guard": dg.MetadataValue.md(page.guard_md or "no source lost suspiciously much"),
            "close calls": dg.MetadataValue.md(page.close_md or "none"),
            "settings": dg.MetadataValue.md(page.settings_md),
            **_filled({"drops by engine": page.by_engine_md, "prompt": page.prompt_md}),
            **_filled({MOST_LEFT: page.most_left}),
            **self._counted(run),
            "seconds": run.seconds,
        }

    def _counted(self, run: StageRun) -> dict[str, Any]:
        """Names and counts of the engines."""
        return {
            "engine": run.engine or "none",
            "engine calls": run.engine_calls,
            "engine results reused": run.engine_hits,
            **{name: n for engine in self._engines for name, n in engine.details().items()},
        }


def rounded(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata with four decimals of each number: a share is 0.8376, not 0.8376413570274637."""
    return {
        name: round(value, _DECIMALS) if isinstance(value, float) else value
        for name, value in metadata.items()
    }


def _filled(texts: Mapping[str, str]) -> dict[str, dg.MarkdownMetadataValue]:
    return {name: dg.MetadataValue.md(text) for name, text in texts.items() if text}


def folded(markdown: str) -> dg.MarkdownMetadataValue:
    """A wide table, which the UI shows in a dialog of its own: it does so from 1,000 characters on.

    Beside the other values it would make all of them wider than the page.
    """
    return dg.MetadataValue.md(markdown.ljust(_FOLDED))


def picture(png: bytes) -> dg.MarkdownMetadataValue:
    """A PNG as metadata that the UI shows inline."""
    return dg.MetadataValue.md(figures.data_uri(png))


def _first_rejects(rejects: pl.DataFrame, most: int = 3) -> str:
    rows = rejects.head(most).iter_rows(named=True)
    located = "; ".join(f"{r['file']}:{r['row']} {r['field']} {r['reason']}" for r in rows)
    shown = printable(located, keep="")
    return f"{rejects.height} rejected rows in the rejects table, e.g. {shown}"


def _rejects_md(rejects: pl.DataFrame, most: int = 10) -> str:
    if rejects.is_empty():
        return "none"
    first = rejects.select("file", "row", "field", "reason", "detail").head(most)
    return f"{rejects.height} rows; the first {first.height}:\n\n{frame_markdown(first)}"


_PREVIEW = "Specifying a partitions_def on an AssetCheckSpec is currently in preview"


def partitioned_check(
    parts: dg.PartitionsDefinition[str], asset: dg.AssetKey, name: str
) -> Callable[[Callable[..., Any]], dg.AssetChecksDefinition]:
    """``dg.asset_check`` with partitions, without Dagster's preview warning.

    The check finds its partition in ``context.partition_key``.
    """

    def decorated(function: Callable[..., Any]) -> dg.AssetChecksDefinition:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _PREVIEW, dg.PreviewWarning)
            return dg.asset_check(asset=asset, name=name, partitions_def=parts)(function)

    return decorated
