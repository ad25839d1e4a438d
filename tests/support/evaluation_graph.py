"""The evaluation's assets over a small data folder, in this process or as a program.

Test sets are ``fever`` (claims that can be asked, one without a label, one without evidence) and
``wice``, whose files are not there. ``python evaluation_graph.py SYSTEM DATA`` materializes one
system in a process that tests kill.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from assets.evaluation import evaluation_assets, evaluation_checks
from decomposerl.baselines.catalogue import METHODS
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.evaluation.systems import System, systems
from decomposerl.schemas import BENCHMARK_CLAIMS, CURVES
from environment import resources_of
from plain_rows import plain, table_of
from resources.policy_tiny.folder import CHECKPOINT
from resources.store.parquet import write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome

TEST_SETS = tuple(one for one in BENCHMARKS if one.name in {"fever", "wice"})
NAMES = tuple(one.name for one in TEST_SETS)
SYSTEMS: tuple[System, ...] = systems(METHODS, ["tiny"])
OF_PROFILE = tuple(one.key for one in SYSTEMS if one.model.key in {"rules", "lexical"})
CLAIMS = 12
_PEOPLE = ("Arlo Brin", "Cato Dena", "Emre Fina", "Goran Hild", "Ivo Jara", "Kian Lotte")
_FILLER = "The town had a market on the river. Its fairs were held in spring."


def claim_row(number: int, **columns: object) -> dict[str, object]:
    """An odd claim says another year than its evidence."""
    who, year, right = _PEOPLE[number % 6], 1900 + number, number % 2 == 0
    evidence = f"{who} opened the harbour of Quessa in {year}. {_FILLER}"
    said = {"claim": f"{who} opened the harbour of Quessa in {year if right else year - 50}."}
    said |= {"label": "Supported" if right else "Refuted", "native_label": "yes" if right else "no"}
    about = {"claim_id": f"{(number * 7919) % 65521:016x}", "source": "toy"}
    about |= {"native_id": str(number), "document_id": f"page {number}"}
    shown: dict[str, object] = {"evidence": evidence, "passages": evidence.split(". ")}
    return plain("benchmark_claims", **shown | about | said | columns)


def write_tests(data: Path, claims: int = CLAIMS) -> None:
    """The test sets as their assets would have left them."""
    rows = [claim_row(number) for number in range(claims)]
    rows += [claim_row(claims + 8, label=None, native_label=None)]
    rows += [claim_row(claims + 9, evidence=None)]
    write_parquet(table_of(BENCHMARK_CLAIMS, rows), data / "benchmark/fever.parquet")
    write_parquet(BENCHMARK_CLAIMS.empty(), data / "benchmark/wice.parquet")


def write_run(data: Path) -> Path:
    """A run ``tiny`` of seven steps and its base; where the adapter that it lacks belongs."""
    shutil.copytree(CHECKPOINT, data / "base_policy")
    run = RunFolder(data / "policy" / "tiny")
    run.path.mkdir(parents=True)
    write_parquet(CURVES.empty(), run.curves)
    write_outcome(run, TrainingOutcome(7, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {}))
    return Path(run.adapter)


def write_policy_of(data: Path) -> None:
    """A trained policy ``tiny`` whose adapter changes next to nothing yet."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype="float32")
    policy = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"]))
    next(weight for name, weight in policy.named_parameters() if "lora_B" in name).data += 1e-6
    policy.save_pretrained(write_run(data))


def resources(data: Path) -> dict[str, Any]:
    """The embedded profile's."""
    return resources_of("embedded", data)


def materialize(
    data: Path,
    system: str | None = None,
    *names: str,
    instance: dg.DagsterInstance | None = None,
    tags: Mapping[str, str] | None = None,
    engines: Mapping[str, object] | None = None,
    **config: object,
) -> dg.ExecuteInProcessResult:
    """Predict and score a system on ``names``, or without one build the two tables.

    ``config`` is that of the predictions, or of the comparison; ``tags`` are for partitions that
    Dagster takes from them, ``engines`` resources in place of the embedded profile's.
    """
    made = evaluation_assets(TEST_SETS, SYSTEMS, None)
    wanted = [f"{kind}/{name}" for kind in ("predictions", "scores") for name in names or NAMES]
    ops: dict[str, Mapping[str, object]] = {"comparison": {"config": config}}
    if system is not None or tags:
        ops = {f"predictions__{name}": {"config": config} for name in names or NAMES}
    else:
        wanted = ["leaderboard", "comparison"]
    keys = [dg.AssetKey(key.split("/")) for key in wanted]
    return dg.materialize(
        [*made, *evaluation_checks(NAMES, SYSTEMS)],
        selection=dg.AssetSelection.assets(*keys),
        partition_key=system,
        resources=resources(data) | dict(engines or {}),
        instance=instance,
        tags=tags,
        run_config={"ops": ops, "loggers": {"console": {"config": {"log_level": "ERROR"}}}},
        raise_on_error=False,
    )


def metadata(result: dg.ExecuteInProcessResult, node: str) -> dict[str, Any]:
    """What an asset's materialization shows, as plain values."""
    (made,) = result.asset_materializations_for_node(node)
    return {name: value.value for name, value in made.metadata.items()}


if __name__ == "__main__":
    sys.exit(not materialize(Path(sys.argv[2]), sys.argv[1]).success)
