"""Named selections: what a user runs without knowing the graph."""

import dagster as dg

funnel = dg.define_asset_job(
    "funnel",
    selection=dg.AssetSelection.groups("sources", "benchmarks", "funnel", "catalog"),
    description="Raw corpora in, curated training claims out, attrition and catalogue built.",
)

test_sets = dg.define_asset_job(
    "test_sets",
    selection=dg.AssetSelection.groups("benchmarks"),
    description="The test sets alone, as the funnel reads them too.",
)

train = dg.define_asset_job(
    "train",
    selection=dg.AssetSelection.assets("policy"),
    description="One policy, a partition a recipe; its claims and base must lie on disk.",
)

training_inputs = dg.define_asset_job(
    "training_inputs",
    selection=dg.AssetSelection.assets("base_policy", "training_claims_random"),
    description="What training needs besides the funnel: a tiny base, and claims drawn at random.",
)

evaluate = dg.define_asset_job(
    "evaluate",
    selection=dg.AssetSelection.key_prefixes("predictions", "scores"),
    description="One system, a partition, on every test set; the test sets must lie on disk.",
)

calibrate = dg.define_asset_job(
    "calibrate",
    selection=dg.AssetSelection.assets("calibrations"),
    description="One system's calibration, a partition, on claims that nothing was trained on.",
)

rank = dg.define_asset_job(
    "rank",
    selection=dg.AssetSelection.assets("leaderboard", "comparison"),
    description="Leaderboard and comparison of all systems that were evaluated so far.",
)

catalogue = dg.define_asset_job(
    "catalogue",
    selection=dg.AssetSelection.groups("catalog"),
    description="Attrition, chat replies and the DuckDB file, built from what lies on disk.",
)

JOBS = [funnel, test_sets, training_inputs, train, calibrate, evaluate, rank, catalogue]
