"""Three-way verdicts: the test claims with a middle class, and the board of their scores.

``predictions/three_way`` and ``scores/three_way`` are in ``assets.evaluation``: to a system this is
one more test set, whose prompts offer the third verdict where its model may give it. In no other
job, and in no mean or table of the paper.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from decomposerl.claims.claim import LabelMap
from decomposerl.claims.source import Benchmark
from decomposerl.evaluation.scored_claims import THREE_WAY_SET
from decomposerl.evaluation.systems import System
from decomposerl.evaluation.three_way import TITLE, middle_maps, three_way_board, three_way_claims
from decomposerl.reports.three_way_report import three_way_markdown
from resources.evaluation.results_folder import SCORES, EvaluationFiles, read_required
from resources.evaluation.rule_systems import answers_third
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded
from resources.store.run_lock import locked_asset

_GROUP = "three_way"


def three_way_assets(
    benchmarks: Sequence[Benchmark], systems: Sequence[System]
) -> list[dg.AssetsDefinition]:
    """The claims, and the board; none where no test set has a middle class."""
    maps = middle_maps({one.name: one.labels for one in benchmarks})
    titles = {one.name: one.title for one in benchmarks}
    return [_claims(maps), _board(systems, titles)] if maps else []


def _claims(maps: Mapping[str, LabelMap]) -> dg.AssetsDefinition:
    @dg.asset(
        key=["benchmark", THREE_WAY_SET],
        deps=[dg.AssetKey(["benchmark", name]) for name in maps],
        group_name=_GROUP,
        config_schema={},
        kinds={"parquet"},
        description=f"{TITLE}. The middle class of every test set that has one with evidence.",
    )
    @locked_asset
    def claims(
        context: dg.AssetExecutionContext, data_folder: DataFolder
    ) -> dg.MaterializeResult[StageOutput]:
        stage = StageRecorder(context)
        made = three_way_claims(
            (labels, read_required(data_folder, f"benchmark/{name}"))
            for name, labels in maps.items()
        )
        counts = made["label"].value_counts(sort=True).iter_rows()
        sets = made["source"].unique(maintain_order=True).to_list()
        return stage.table(made, {"test sets": sets, **dict(counts)})

    return claims


def _board(systems: Sequence[System], titles: Mapping[str, str]) -> dg.AssetsDefinition:
    third = {one.key for one in systems if answers_third(one)}
    digests = {one.key: one.entry_digest for one in systems}

    @dg.asset(
        deps=[dg.AssetKey([SCORES, THREE_WAY_SET])],
        group_name=_GROUP,
        config_schema={},
        kinds={"parquet"},
        description="Every system's scores over three labels, apart from the paper's two-way ones.",
    )
    @locked_asset
    def leaderboard_three_way(
        context: dg.AssetExecutionContext, data_folder: DataFolder
    ) -> dg.MaterializeResult[StageOutput]:
        stage = StageRecorder(context)
        files = EvaluationFiles(data_folder, [THREE_WAY_SET], digests)
        short = {system for system, _ in files.runs().limited}
        board = three_way_board(files.scores(), systems, third, short)
        text = three_way_markdown(board, titles)
        return stage.table(board, {"systems": board["system"].n_unique(), "board": folded(text)})

    return leaderboard_three_way
