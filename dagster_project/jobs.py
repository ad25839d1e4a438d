"""Named selections: what a user runs without knowing the graph."""

import dagster as dg

funnel = dg.define_asset_job(
    "funnel",
    selection=dg.AssetSelection.groups("sources", "benchmarks", "funnel", "catalog"),
    description="Raw corpora in, curated training claims out, attrition and catalogue built.",
)

train = dg.define_asset_job(
    "train",
    selection=dg.AssetSelection.assets("policy"),
    description="One policy, a partition a recipe; its claims and base must lie on disk.",
)

JOBS = [funnel, train]
