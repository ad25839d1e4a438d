"""The named jobs: selections of assets that a user runs without knowing the graph."""

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
    "report": (
        _SELECT.groups("report"),
        "One page with tables and figures of everything in the data folder, report/report.html.",
    ),
    "catalogue": (
        _SELECT.groups("catalog"),
        "Attrition, chat replies and the DuckDB file, built from what is on disk.",
    ),
}
JOBS = [
    dg.define_asset_job(name, selection=selection, description=description)
    for name, (selection, description) in _SELECTIONS.items()
]
