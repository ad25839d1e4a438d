"""Does a run learn, and from what: small recipes over several seeds, with controls.

``python -m studies.learning_study --data data --report docs/results/learning.md`` trains ``tiny``,
``tiny_s10`` (labels on a tenth of the claims) and ``tiny_shuffled`` (rewards permuted within
groups, which must teach nothing) with every seed, on the claims of a data folder in which the
funnel ran; then it writes the table and the figure of the page. Finished runs are kept,
interrupted runs resume. Each run is one process.

``--control FOLDER`` (written by ``python -m studies.warm_start --control``) adds ``tiny_clean``:
the recipe ``tiny`` from a base policy that imitated clean traces only. Before its first step it
shows the level that undoing planted flaws would reach.

``--variants smol --prompts studies/real_prompts --section smol`` trains a real instruct model.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from decomposerl.training.experiment import Experiment
from decomposerl.training.experiments import experiment, with_seed
from perf.pages import write_between_markers
from resources.embedder.minilm import MiniLM
from resources.embedder.stored import StoredEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.store.parquet import DataFolder
from resources.store.stored_engine import ResultStores
from resources.training.process import RunLimits, StepReport, TrainingRun
from resources.training.run_inputs import gather_inputs
from resources.training.train import train
from studies.learning_report import CLEAN, TITLES, Study, study_page

VARIANTS = ("tiny", "tiny_s10", "tiny_shuffled")
"""By default; with a control ``CLEAN`` too."""


def main(words: Sequence[str] | None = None) -> int:
    """Train the variants, then report on all runs in the folder; returns 1 if a run failed."""
    options = _options(words)
    if options.one:
        _train_one(options, *options.one.rsplit(":", 1))
        return 0
    wanted = [f"{n}:{seed}" for seed in range(1, options.seeds + 1) for n in options.variants]
    with ThreadPoolExecutor(options.workers) as pool:
        done = list(pool.map(lambda one: _in_process(options, one), wanted))
    study = Study.read(options.out, options.variants, options.seeds)
    page = study_page(study, options.picture)
    print(page)
    if options.report:
        write_between_markers(options.report, options.section, page)
    return int(not all(done))


def _in_process(options: argparse.Namespace, one: str) -> bool:
    words = [sys.executable, "-m", "studies.learning_study", "--one", one, "--data", options.data]
    words += ["--out", options.out, "--threads", options.threads, "--prompts", options.prompts]
    words += ["--control", options.control] if options.control else []
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1"}
    log = options.out / f"{one.replace(':', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        done = subprocess.run(  # noqa: S603 - our own program
            [str(word) for word in words],
            env=environment,
            stdout=output,
            stderr=output,
            check=False,
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
    names = tuple(engine.engine for engine in engines)
    inputs = gather_inputs(data, recipe, names, options.prompts, folder)
    run = TrainingRun(
        experiment=recipe,
        key=inputs.key,
        claims=inputs.claims,
        held_out=inputs.held_out,
        base=inputs.base,
        revision=inputs.revision,
        prompts=inputs.prompts,
        folder=folder,
        threads=options.threads,
        limits=RunLimits(stop_unhealthy=False, checkpoint_every=5),
    )
    train(run, *engines, _print_step)


def _recipe(name: str, seed: int, control: Path | None) -> Experiment:
    """The recipe of a variant; ``CLEAN`` is ``tiny`` from the base policy in ``control``."""
    if name != CLEAN:
        return with_seed(experiment(name), seed)
    tiny, base = experiment(VARIANTS[0]), str(control and control.resolve())
    return dataclasses.replace(tiny, name=CLEAN, model=base, seed=seed)


def _print_step(step: StepReport) -> None:
    total = step.means.get("total")
    print(f"{step.step}/{step.steps} total {total} {dict(step.seconds)}", flush=True)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="data folder in which the funnel ran"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("data/learning_study"), help="folder of the runs"
    )
    parser.add_argument("--seeds", type=int, choices=range(1, 100), default=5, metavar="N")
    parser.add_argument("--variants", nargs="+", choices=list(TITLES))
    parser.add_argument("--workers", type=int, default=2, help="parallel runs")
    parser.add_argument("--threads", type=int, default=1, help="threads of a run")
    parser.add_argument("--prompts", default="", help="folder with your own policy.md")
    parser.add_argument("--control", type=Path, help="base policy trained on clean traces only")
    parser.add_argument("--picture", type=Path, default=Path("docs/results/learning.png"))
    parser.add_argument("--report", type=Path, help="Markdown file with two markers")
    parser.add_argument("--section", default="learning", help="name of the markers")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.control is not None and not (options.control / "config.json").is_file():
        parser.error(f"--control: {options.control} contains no model")
    default = [*VARIANTS, *([CLEAN] if options.control else [])]
    options.variants = options.variants or default
    if CLEAN in options.variants and options.control is None:
        parser.error(f"{CLEAN} needs --control")
    return options


if __name__ == "__main__":
    sys.exit(main())
