"""Does a run learn, and from what: the tiny recipe over several seeds, beside its controls.

``python -m studies.learning_study --data data --report docs/training.md`` trains ``tiny``,
``tiny_s10`` (labels on a tenth of the claims) and ``tiny_shuffled`` (rewards permuted within
groups, which must teach nothing), each with every seed, from the claims in a data folder where
the funnel ran; then writes the table and the picture of the page. A run that is done is not
run again, one that was cut short goes on.

``--control FOLDER`` (of ``python -m studies.warm_start --control``) measures a base policy that
imitated clean traces alone, untrained: the level that undoing planted flaws would reach.

Left out deliberately: another trainer. These are the runs of the asset ``policy``, one process
each, one thread a process.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from decomposerl.training.experiment import Experiment, Optimization
from decomposerl.training.experiments import experiment
from resources.embedder.minilm import MiniLM
from resources.embedder.stored import StoredEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.store.parquet import DataFolder
from resources.store.result_store import ResultStores
from resources.training.run import Limits, StepReport, TrainingRun
from resources.training.run_inputs import gather
from resources.training.trainer import train
from studies.learning_report import Study, study_page
from studies.verifier_report import write_between_markers

VARIANTS = ("tiny", "tiny_s10", "tiny_shuffled")
CONTROL = "control"


def main(words: Sequence[str] | None = None) -> int:
    """Train what is asked for, then report on all that lies in the folder; 1 if a run failed."""
    options = _options(words)
    if options.one:
        _train_one(options, *options.one.rsplit(":", 1))
        return 0
    names = [CONTROL] * bool(options.control) + options.variants
    wanted = [f"{name}:{seed}" for seed in range(1, options.seeds + 1) for name in names]
    with ThreadPoolExecutor(options.workers) as pool:
        done = list(pool.map(lambda one: _in_process(options, one), wanted))
    study = Study.read(options.out, options.variants, options.seeds)
    page = study_page(study, options.picture)
    print(page)
    if options.report:
        write_between_markers(options.report, "learning", page)
    return int(not all(done))


def _in_process(options: argparse.Namespace, one: str) -> bool:
    words = [sys.executable, "-m", "studies.learning_study", "--one", one, "--data", options.data]
    words += ["--out", options.out] + (["--control", options.control] if options.control else [])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    log = options.out / f"{one.replace(':', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as told:
        done = subprocess.run(  # noqa: S603 - our own program
            [str(word) for word in words], env=environment, stdout=told, stderr=told, check=False
        )
    print(f"{one}: {'done' if done.returncode == 0 else f'failed, see {log}'}", flush=True)
    return done.returncode == 0


def _train_one(options: argparse.Namespace, name: str, seed: str) -> None:
    recipe = _recipe(name, int(seed), options.control)
    engines = (
        RuleJudge(),
        StoredEmbedder(MiniLM(), ResultStores(options.out / "vectors" / name / seed)),
    )
    data = DataFolder(base_dir=str(options.data))
    folder = (options.out / name / seed).resolve()
    material = gather(data, recipe, tuple(engine.engine for engine in engines), folder=folder)
    run = TrainingRun(
        experiment=recipe,
        key=material.key,
        claims=material.claims,
        held_out=material.held_out,
        base=material.base,
        folder=folder,
        limits=Limits(stop_unhealthy=False),
    )
    train(run, *engines, _tell)


def _recipe(name: str, seed: int, control: Path | None) -> Experiment:
    """The recipe of a variant; the control is one step that moves nothing, from its own base."""
    if name != CONTROL:
        return dataclasses.replace(experiment(name), seed=seed)
    tiny, base = experiment(VARIANTS[0]), str(control and control.resolve())
    still = Optimization(learning_rate=1e-12, least_learning_rate=0.0, steps=1)
    return dataclasses.replace(tiny, name=CONTROL, model=base, seed=seed, optimization=still)


def _tell(step: StepReport) -> None:
    total = step.means.get("total")
    print(f"{step.step}/{step.steps} total {total} {dict(step.seconds)}", flush=True)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="where the funnel ran")
    parser.add_argument("--out", type=Path, default=Path("data/learning_study"), help="runs")
    parser.add_argument("--seeds", type=int, choices=range(1, 100), default=5, metavar="N")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--workers", type=int, default=2, help="runs side by side")
    parser.add_argument("--control", type=Path, help="base policy on clean traces alone")
    parser.add_argument("--picture", type=Path, default=Path("docs/learning.png"))
    parser.add_argument("--report", type=Path, help="page with the two markers 'learning'")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.control is not None and not (options.control / "config.json").is_file():
        parser.error(f"--control: {options.control} holds no model")
    return options


if __name__ == "__main__":
    sys.exit(main())
