"""Checks of the funnel: conservation and leakage (blocking), source guard and label balance.

They read the tables on disk, not the metadata of a stage.
"""

import itertools
from collections.abc import Sequence

import dagster as dg
import polars as pl

from decomposerl.funnel.catalogue import STAGES
from decomposerl.funnel.step import conservation_errors
from decomposerl.reports.giveaways import READ, giveaways, giveaways_text
from decomposerl.reports.stage_page import guard_share, source_counts, struck_sources
from decomposerl.reports.tables import frame_markdown
from decomposerl.schemas import CLAIMS, LABELS
from resources.embedder.resource import EmbedderResource
from resources.evaluation.model import leaks
from resources.store.parquet import DataFolder
from resources.store.recording import rounded
from resources.store.rows import StoredRows

_IDS = ["claim_id", "source"]
_ROWS_AT_ONCE = 5_000_000


def source_checks(source_names: Sequence[str]) -> list[dg.AssetChecksDefinition]:
    """Per source: every native row became a claim, a drop or a reject; no token is the label."""
    return [made(name) for name in source_names for made in (_source_conservation, _giveaways)]


def _giveaways(name: str) -> dg.AssetChecksDefinition:
    key = f"claims/{name}"

    @dg.asset_check(asset=dg.AssetKey(["claims", name]), name="label_giveaways")
    def label_giveaways(data_folder: DataFolder) -> dg.AssetCheckResult:
        """No token of the evidence decides the label more than chance allows (a warning)."""
        rows = StoredRows(data_folder.file(key), CLAIMS)
        found = giveaways(rows.batches(READ))
        return dg.AssetCheckResult(
            passed=found.is_empty(),
            severity=dg.AssetCheckSeverity.WARN,
            description=giveaways_text(found) or None,
            metadata={"tokens": dg.MetadataValue.md(frame_markdown(found))},
        )

    return label_giveaways


def _source_conservation(name: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=dg.AssetKey(["claims", name]), name="conservation", blocking=True)
    def conservation(data_folder: DataFolder) -> dg.AssetCheckResult:
        """Rows read = claims + drops + rejected rows."""
        read = data_folder.run(f"claims/{name}")["rows_in"]
        counted = {
            "claims": _rows(data_folder, f"claims/{name}"),
            "drops": _rows(data_folder, f"drops/claims/{name}"),
            "rejected rows": data_folder.read(f"rejects/{name}").filter(pl.col("row") > 0).height,
        }
        return dg.AssetCheckResult(
            passed=read == sum(counted.values()), metadata={"rows read": read, **counted}
        )

    return conservation


def _rows(folder: DataFolder, key: str) -> int:
    return int(folder.counts([key], ["source"])["rows"].sum())


def stage_checks(source_names: Sequence[str]) -> list[dg.AssetChecksDefinition]:
    """Per stage that drops rows: rows in = rows kept + rows dropped, per source."""
    first = [f"claims/{name}" for name in source_names]
    inputs = {STAGES[0]: first} | {after: [before] for before, after in itertools.pairwise(STAGES)}
    inputs["training_claims"] = ["silver_decomposed"]
    return [_stage_conservation(stage, upstream) for stage, upstream in inputs.items()]


def _stage_conservation(stage: str, upstream: Sequence[str]) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=dg.AssetKey(stage), name="conservation", blocking=True)
    def conservation(data_folder: DataFolder) -> dg.AssetCheckResult:
        """Every input row was kept, or dropped with a reason, exactly once."""
        rows = sum(_rows(data_folder, key) for key in upstream)
        parts = max(1, -(-rows // _ROWS_AT_ONCE))  # all ids of a large pool would fill the memory
        broken = [
            sentence
            for at in range(parts)
            for sentence in conservation_errors(*_ids(data_folder, upstream, stage, at, parts))
        ]
        entered, kept = (data_folder.counts(keys, ["source"]) for keys in (upstream, [stage]))
        dropped = kept.clear()
        if data_folder.exists(f"drops/{stage}"):
            dropped = data_folder.counts([f"drops/{stage}"], ["source"])
        counts = frame_markdown(source_counts(entered, kept, dropped))
        return dg.AssetCheckResult(
            passed=not broken,
            metadata={"broken": broken, "per source": dg.MetadataValue.md(counts)},
        )

    return conservation


def _ids(
    folder: DataFolder, upstream: Sequence[str], stage: str, part: int, parts: int
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """One of ``parts`` of the rows in, kept and dropped by a stage."""

    def ids(key: str) -> pl.DataFrame:
        return folder.read(key, _IDS).filter(pl.col("claim_id").hash() % parts == part)

    rows_in, kept = pl.concat([ids(key) for key in upstream]), ids(stage)
    if folder.exists(f"drops/{stage}"):
        return rows_in, kept, ids(f"drops/{stage}")
    # The selection drops nothing: unselected rows wait for the long-evidence rule.
    return rows_in, kept, rows_in.join(kept, on="claim_id", how="anti").select(_IDS)


def guard_checks() -> list[dg.AssetChecksDefinition]:
    """Per stage without a budget: no source lost most of its rows."""
    return [_source_guard(stage) for stage in STAGES if guard_share(stage) is not None]


def _source_guard(stage: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=dg.AssetKey(stage), name="source_guard")
    def source_guard(data_folder: DataFolder) -> dg.AssetCheckResult:
        """No source lost nearly all rows here (only a warning)."""
        kept, drops = (data_folder.counts([key], ["source"]) for key in (stage, f"drops/{stage}"))
        counts = source_counts(pl.concat([kept, drops]), kept, drops)
        struck = struck_sources(stage, counts)
        return dg.AssetCheckResult(
            passed=struck.is_empty(),
            severity=dg.AssetCheckSeverity.WARN,
            metadata={
                "struck": struck["source"].to_list(),
                "warns above": guard_share(stage),
                "per source": dg.MetadataValue.md(frame_markdown(counts)),
            },
        )

    return source_guard


def leakage_check(benchmark_names: Sequence[str]) -> dg.AssetChecksDefinition:
    """No test claim is in the training set, checked again on the final table."""

    @dg.asset_check(asset=dg.AssetKey("training_claims"), name="no_leakage", blocking=True)
    def no_leakage(data_folder: DataFolder, embedder: EmbedderResource) -> dg.AssetCheckResult:
        """All three decontamination prongs, at the last run's thresholds, find nothing."""
        drops, tests = leaks(data_folder, "training_claims", benchmark_names, embedder.open())
        reasons = dict(drops["reason"].value_counts(sort=True).iter_rows())
        return dg.AssetCheckResult(
            passed=drops.is_empty(), metadata={**reasons, "test claims": tests}
        )

    return no_leakage


@dg.asset_check(asset=dg.AssetKey("training_claims"), name="label_balance")
def label_balance(data_folder: DataFolder) -> dg.AssetCheckResult:
    """No label has more than 60 % of the training set (only a warning)."""
    labels = dict(data_folder.counts(["training_claims"], ["label"]).iter_rows())
    rows = sum(labels.values())
    shares = {label: count / rows for label, count in sorted(labels.items())}
    return dg.AssetCheckResult(
        passed=0 < max(shares.values(), default=0.0) <= 0.6,  # noqa: PLR2004 - the docstring's
        severity=dg.AssetCheckSeverity.WARN,
        metadata=rounded(
            {"supported share": shares.get("Supported", 0.0), "rows": rows}
            | {f"{label} share": one for label, one in shares.items() if label not in LABELS}
        ),
    )


def all_checks(
    source_names: Sequence[str], benchmark_names: Sequence[str]
) -> list[dg.AssetChecksDefinition]:
    """Every check of the funnel."""
    return [
        *source_checks(source_names),
        *stage_checks(source_names),
        *guard_checks(),
        leakage_check(benchmark_names),
        label_balance,
    ]
