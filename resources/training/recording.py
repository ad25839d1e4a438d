"""A trained policy as a materialization: its curves, both ends, time, judge and versions.

Takes what the training process reported, gives metadata for the UI and a data version.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from decomposerl.reports.training_figure import training_png
from decomposerl.reports.training_report import changes_markdown, duration, seconds_markdown
from decomposerl.training.curves import changes, ends
from decomposerl.training.experiment import plain_values
from resources.store.parquet import file_sha256
from resources.store.recording import picture
from resources.training.resource import Trained
from resources.training.run import TrainingOutcome
from resources.training.run_folder import RunFolder, read_starts

_WEIGHTS = "adapter_model.safetensors"
_ENDS = 10  # the ends of training curves are means over a tenth of the steps


def policy_result(trained: Trained) -> dg.MaterializeResult[None]:
    """The materialization of a policy."""
    run, experiment, outcome = trained.run, trained.run.experiment, trained.outcome
    config = RunFolder(run.folder).config
    metadata: dict[str, Any] = {
        "experiment": experiment.title,
        "reproduces": experiment.paper or "nothing of the paper",
        "adapter": dg.MetadataValue.path(str(outcome.adapter)),
        "run": run.key,
        "base": run.base,
        "steps": outcome.steps,
        "attempts": len(read_starts(run.folder)) or 1,
        "resumed from step": outcome.resumed_from,
        "stopped early": outcome.stopped or "no",
        "learning curves": picture(training_png(pl.read_parquet(outcome.curves))),
        "curves file": dg.MetadataValue.path(str(outcome.curves)),
        "before and after": dg.MetadataValue.md(_before_and_after(outcome)),
        "wall time": duration(sum(outcome.seconds.values())),
        "wall time by phase": dg.MetadataValue.md(seconds_markdown(outcome.seconds)),
        "judge": dg.MetadataValue.json(_plain(outcome.judge)),
        "recipe": dg.MetadataValue.json(plain_values(experiment)),
        "resolved config": dg.MetadataValue.json(_config(config)),
        "library versions": dg.MetadataValue.json(_plain(outcome.versions)),
        "dry run": dg.MetadataValue.md(str(trained.dry_run.get("markdown", "none"))),
        **_numbers(outcome),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(_version(outcome)))


def _before_and_after(outcome: TrainingOutcome) -> str:
    curves = pl.read_parquet(outcome.curves)
    first, last = ends(curves, max(outcome.steps // _ENDS, 1))
    return changes_markdown(changes({**outcome.before, **first}, {**outcome.after, **last}))


def _numbers(outcome: TrainingOutcome) -> dict[str, float]:
    """Held-out measures as numbers, which the UI plots over materializations."""
    return {
        f"{key.replace('_', ' ')} {end}": value
        for end, found in (("before", outcome.before), ("after", outcome.after))
        for key, value in found.items()
    }


def _version(outcome: TrainingOutcome) -> str:
    """Over the adapter's weights and the curves."""
    weights = outcome.adapter / _WEIGHTS if outcome.adapter.is_dir() else outcome.adapter
    both = file_sha256(weights) + file_sha256(outcome.curves)
    return hashlib.sha256(both.encode()).hexdigest()


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    config: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return config


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dict(values), default=str))
    return plain
