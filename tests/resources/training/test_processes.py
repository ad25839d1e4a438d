"""Two training processes that share every group: rewards see it whole, the judge is asked once.

``python test_processes.py RUN`` is one of them, as ``torch.distributed.run`` starts it.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.training.experiment import Grpo, HeldOut
from fakes import BagOfWordsEmbedder
from project import PYTHONPATH
from resources.training.process import StepReport, TrainingRun
from resources.training.rollout_log import read_log
from training_parts import EXPERIMENT, PATIENT, FailingJudge, run_of


def main(path: str) -> None:
    """Train with a judge that counts, then compare a sampler's tokens, three here and one there.

    What is printed is the rank, the steps done, the steps that it reported, the batches that it
    judged and the seconds that it waits for another; and the number of tokens and their surprisal,
    which ought to be over both processes.
    """
    import torch
    from accelerate import PartialState

    from resources.training.sampler import sampler_gaps
    from resources.training.train import load_policy, prepare, train

    run, reports = TrainingRun.from_json(Path(path).read_text("utf-8")), list[StepReport]()
    judge, embedder = FailingJudge("coverage", 0), BagOfWordsEmbedder()
    outcome, rank = train(run, judge, embedder, reports.append), PartialState().process_index
    group = torch.distributed.distributed_c10d._get_default_group()
    waits = group._get_backend(torch.device("cpu")).options._timeout
    batches = len(judge.asked)
    say("rank", rank, outcome.steps, len(reports), batches, int(waits.total_seconds()))
    again = replace(run, folder=run.folder.with_name("check"))
    monitor = prepare(again, load_policy(again), judge, embedder, lambda _: None)
    sampled = [[-1.0] * 3, [-5.0]][rank]
    points = sampler_gaps(monitor.trainer, [[5, 6, 7]], [[6] * len(sampled)], [sampled])
    say("sampler", points["sampler_gap"].rows, points["sampler_nll"].mean)


def say(*words: object) -> None:
    """Write one line at once: with ``print``, two processes may mix their words in one pipe."""
    os.write(sys.stdout.fileno(), f"{' '.join(map(str, words))}\n".encode())


def test_two_processes_score_whole_groups_once(base: Path, tmp_path: Path):
    """Half of a group is sampled here, half there; the first scores all, the second waits."""
    run = run_of(
        tmp_path / "run",
        base,
        grpo=Grpo(group_size=4, per_device_batch=2, global_batch=4),
        optimization=replace(EXPERIMENT.optimization, warmup_ratio=0.0),
        held_out_claims=HeldOut(claims=2),
        limits=replace(PATIENT, most_wait_s=4_321),
    )
    run_file = tmp_path / "run.json"
    run_file.write_text(run.to_json(), "utf-8")
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    variables = {"PYTHONPATH": PYTHONPATH, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        [*words, __file__, str(run_file)],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == child.returncode, child.stderr
    ranks = sorted(one for one in child.stdout.splitlines() if one.startswith(("rank", "sampler")))
    # two steps in two batches each, full sets first; held-out claims before and after
    both = ["sampler 4 2.0"] * 2
    assert ["rank 0 2 2 9 4321", "rank 1 2 0 0 4321", *both] == ranks
    state = run.folder / "checkpoints" / "step-000002"
    logs = json.loads((state / "trainer_state.json").read_text("utf-8"))["log_history"]
    rollouts = read_log(run.folder, "rollouts")
    assert 8 == rollouts.height
    for step, logged in enumerate(one for one in logs if "loss" in one):
        totals = rollouts.filter(step=step)["total"]
        assert totals.mean() == pytest.approx(logged["reward"], abs=1e-6)
        assert totals.std() == pytest.approx(logged["reward_std"], abs=1e-6)
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= {path.name for path in state.iterdir()}


if __name__ == "__main__":
    main(sys.argv[1])
