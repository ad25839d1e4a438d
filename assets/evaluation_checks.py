"""Checks of the evaluation: parse rate, completeness, label balance, leakage.

They read the tables on disk, not the metadata of a run. Scores have no lower bound.
"""

from collections.abc import Container, Sequence

import dagster as dg
import polars as pl

from decomposerl.evaluation.derived import derived_from
from decomposerl.evaluation.published import SHARE_TOLERANCE, TEST_SET_SIZES
from decomposerl.evaluation.subset import evaluation_subset
from decomposerl.evaluation.systems import System
from resources.corpora.resource import CorporaResource
from resources.embedder.resource import EmbedderResource
from resources.evaluation.partitions import system_partitions
from resources.evaluation.results_folder import LIMITED, read_test_claims
from resources.evaluation.training_overlap import leaks
from resources.store.parquet import DataFolder
from resources.store.partition_checks import partitioned_check
from resources.store.recording import rounded

LEAST_PARSED, LEAST_USEFUL = 0.95, 0.5
TRAINING_SETS = ("training_claims", "training_claims_random")
_WARN, _ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


def evaluation_checks(
    benchmarks: Sequence[str], systems: Sequence[System], last: Container[str] = frozenset()
) -> list[dg.AssetChecksDefinition]:
    """Every check of the evaluation; those of predictions and scores are partitioned by system.

    ``last`` as in ``evaluation_assets``.
    """
    parts = system_partitions(systems, last)
    per_benchmark = [
        check(name, parts)
        for name in (*benchmarks, *derived_from(benchmarks))
        for check in (_parse_rate, _every_claim, _label_balance)
    ]
    return [*per_benchmark, _no_leakage(benchmarks)]


def _parse_rate(name: str, parts: dg.StaticPartitionsDefinition) -> dg.AssetChecksDefinition:
    key = dg.AssetKey(["predictions", name])

    @partitioned_check(parts, asset=key, name="parse_rate")
    def parse_rate(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder
    ) -> dg.AssetCheckResult:
        """95 % of the replies have a readable verdict; below half, the check is an error."""
        path = f"predictions/{name}/{context.partition_key}"
        status = data_folder.read(path, ["parse_status"])["parse_status"]
        share = float((status == "parsed").mean() or 0.0) if len(status) else 1.0  # type: ignore[arg-type]
        return dg.AssetCheckResult(
            passed=share >= LEAST_PARSED,
            severity=_ERROR if share < LEAST_USEFUL else _WARN,
            description=f"{share:.0%} of the replies have a readable verdict",
            metadata=rounded({"parsed share": share})
            | dict(status.value_counts(sort=True).iter_rows()),
        )

    return parse_rate


def _every_claim(name: str, parts: dg.StaticPartitionsDefinition) -> dg.AssetChecksDefinition:
    key = dg.AssetKey(["predictions", name])

    @partitioned_check(parts, asset=key, name="every_claim_once")
    def every_claim_once(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder
    ) -> dg.AssetCheckResult:
        """Each claim with label and evidence has one prediction, except in a limited run."""
        path = f"predictions/{name}/{context.partition_key}"
        predicted = data_folder.read(path, ["claim_id"])
        usable = evaluation_subset(read_test_claims(data_folder, name)).claims
        missing = usable.join(predicted, on="claim_id", how="anti").height
        unknown = predicted.join(usable, on="claim_id", how="anti").height
        limited = data_folder.run(path)["status"] == LIMITED
        return dg.AssetCheckResult(
            passed=unknown == 0 and (limited or missing == 0),
            metadata={"missing": missing, "unknown": unknown, "limited": limited},
        )

    return every_claim_once


def _label_balance(name: str, parts: dg.StaticPartitionsDefinition) -> dg.AssetChecksDefinition:
    key, registered = dg.AssetKey(["scores", name]), TEST_SET_SIZES.get(name)

    @partitioned_check(parts, asset=key, name="label_balance")
    def label_balance(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder, corpora: CorporaResource
    ) -> dg.AssetCheckResult:
        """The scored claims have the published number and share of Supported (a warning)."""
        path = f"scores/{name}/{context.partition_key}"
        whole = data_folder.read(path).filter(slice="all", metric="balanced_accuracy")
        rows, supported = (int(whole[column].sum()) for column in ("rows", "supported"))
        facts = {"claims": rows, "supported": supported}
        if not rows or data_folder.run(path)["status"] == LIMITED:
            return dg.AssetCheckResult(passed=True, metadata={**facts, "compared": "not at all"})
        if registered is None or not corpora.root:
            why = "the bundled sample is not published" if registered else "not registered"
            return dg.AssetCheckResult(passed=True, metadata={**facts, "compared": why})
        share = registered.supported_share
        near = share is None or abs(supported / rows - share) <= SHARE_TOLERANCE
        return dg.AssetCheckResult(
            passed=near and rows == registered.rows,
            severity=_WARN,
            metadata={
                **facts,
                "registered claims": registered.rows,
                "registered supported": registered.supported or "not known",
                "source": registered.source,
            },
        )

    return label_balance


def _no_leakage(benchmarks: Sequence[str]) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=dg.AssetKey("leaderboard"), name="no_leakage")
    def no_leakage(data_folder: DataFolder, embedder: EmbedderResource) -> dg.AssetCheckResult:
        """The three decontamination prongs find no test claim in any training set on disk."""
        read = [name for name in benchmarks if data_folder.exists(f"benchmark/{name}")]
        leaked = {
            training: leaks(data_folder, training, read, embedder.open())
            for training in TRAINING_SETS
            if read and data_folder.exists(training)
        }
        drops = [leak.drops for leak in leaked.values()]
        by_set = pl.concat(drops)["matched_source"].value_counts(sort=True) if drops else None
        return dg.AssetCheckResult(
            passed=all(frame.is_empty() for frame in drops),
            metadata={
                "training sets": list(leaked) or "none on disk",
                "test claims": max((leak.tests for leak in leaked.values()), default=0),
                **{
                    f"{name}: {why}": n
                    for name, leak in leaked.items()
                    for why, n in leak.reasons.items()
                },
                "by test set": {} if by_set is None else dict(by_set.iter_rows()),
            },
        )

    return no_leakage
