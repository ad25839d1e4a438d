"""The named jobs: selections of assets that a user runs without knowing the graph.

A job's launchpad opens with the settings of its assets and their defaults, and describes every
field; its page has an example.
"""

from collections.abc import Container, Sequence
from typing import Any

import dagster as dg

from decomposerl.training.experiment import BASE_POLICY, CLEAN_POLICY

_SELECT = dg.AssetSelection
_SELECTIONS = {
    "funnel": (
        _SELECT.groups("sources", "benchmarks", "funnel", "catalog"),
        "Raw corpora to curated training claims, then attrition and the catalogue.",
    ),
    "test_sets": (
        _SELECT.groups("benchmarks"),
        "Only the test sets; the funnel reads them too.",
    ),
    "training_inputs": (
        _SELECT.assets(BASE_POLICY, CLEAN_POLICY, "training_claims_random"),
        "What training needs besides the funnel: tiny base policies and randomly drawn claims.",
    ),
    "train": (
        _SELECT.assets("policy"),
        "A policy; one partition per recipe and seed. Its claims and base policy must be on disk.",
    ),
    "calibrate": (
        _SELECT.assets("calibrations"),
        "One system's calibration (a partition), on claims that no training used.",
    ),
    "evaluate": (
        _SELECT.key_prefixes("predictions", "scores"),
        "One system (a partition) on every test set. The test sets must be on disk.",
    ),
    "rank": (
        _SELECT.assets("leaderboard", "comparison"),
        "Leaderboard and comparison of all systems evaluated so far.",
    ),
    "studies": (
        _SELECT.groups("studies"),
        "The paper's ablations as tables and figures; in none of the other jobs.",
    ),
    "write_report": (  # an asset is called report, and both names share one space
        _SELECT.groups("report"),
        "One page with tables and figures of everything in the data folder, report/report.html.",
    ),
    "catalogue": (
        _SELECT.groups("catalog"),
        "Attrition, chat replies and the DuckDB file, built from what is on disk.",
    ),
}
EXAMPLES = {
    "studies": """\
ops:
  study__selectors:
    config:
      selectors: [facility_location, random]
""",
    "write_report": """\
ops:
  report:
    config:
      traces: 50
""",
    "funnel": """\
ops:
  rule_filtered:
    config:
      min_tokens: 100
  deduplicated:
    config:
      cosine: 0.8
      pairs_floor: 0.6
resources:
  corpora:
    config:
      settings:
        label_rule: middle_is_refuted
""",
    "training_inputs": """\
ops:
  training_claims_random:
    config:
      seed: 7
""",
    "train": """\
ops:
  policy:
    config:
      dry_run_only: true
      steps: 60
""",
    "calibrate": """\
ops:
  calibrations:
    config:
      claims: 500
""",
    "evaluate": """\
ops:
  predictions__fever:
    config:
      limit: 100
""",
    "rank": """\
ops:
  comparison:
    config:
      against: [simple-rules-faithful]
""",
}
"""A run configuration of each job whose assets have one; what it leaves out keeps its default."""
JOB_NAMES = tuple(_SELECTIONS)


def jobs_over(assets: Sequence[dg.AssetsDefinition], *, prefilled: bool = True) -> Sequence[Any]:
    """The jobs over the assets of a graph; ``prefilled``: launchpads open with every setting.

    Some of a job's assets run only without: Dagster refuses defaults of assets that do not run.
    """
    from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

    # Resolved once: a selection over a list of assets builds the graph again.
    graph = AssetGraph.from_assets(assets) if prefilled else None
    return [
        dg.define_asset_job(
            name,
            selection=selection,
            description=_described(name, description),
            config={"ops": ops}
            if graph and (ops := _defaults(selection.resolve(graph), assets))
            else None,
        )
        for name, (selection, description) in _SELECTIONS.items()
    ]


def _described(name: str, description: str) -> str:
    example = EXAMPLES.get(name)
    if example is None:
        return description
    return f"{description}\n\nConfiguration, for example:\n\n```yaml\n{example}```"


def _defaults(
    keys: Container[dg.AssetKey], assets: Sequence[dg.AssetsDefinition]
) -> dict[str, dict[str, Any]]:
    """The settings of the assets with these keys and their defaults, by the name of the op.

    None for several partitioned assets: the UI would send all of them with a run of one.
    """
    chosen = [asset for asset in assets if asset.key in keys]
    if len(chosen) > 1 and any(asset.partitions_def for asset in chosen):
        return {}
    fields = {asset.op.name: _fields(asset) for asset in chosen}
    return {name: {"config": one} for name, one in fields.items() if one}


def _fields(asset: dg.AssetsDefinition) -> dict[str, Any]:
    config: Any = asset.op.config_schema.config_type
    return {
        name: field.default_value if field.default_provided else None
        for name, field in getattr(config, "fields", {}).items()
    }
