"""The named jobs: selections of assets that a user runs without knowing the graph.

The launchpad describes every field of a job's configuration, and a job's page has an example.
"""

import dagster as dg

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
        _SELECT.assets("base_policy", "training_claims_random"),
        "What training needs besides the funnel: a tiny base policy and randomly drawn claims.",
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
  scores__fever:
    config:
      draws: 2000
""",
    "rank": """\
ops:
  comparison:
    config:
      against: [simple-rules-faithful]
""",
}
"""A run configuration of each job whose assets have one; what it leaves out keeps its default."""
JOBS = [
    dg.define_asset_job(
        name,
        selection=selection,
        description=f"{description}\n\nConfiguration, for example:\n\n```yaml\n{example}```"
        if (example := EXAMPLES.get(name))
        else description,
    )
    for name, (selection, description) in _SELECTIONS.items()
]
