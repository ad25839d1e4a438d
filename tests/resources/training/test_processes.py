"""Two training processes that share every group: rewards see it whole, the judge is asked once."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.training.experiment import Grpo, HeldOut
from project import PYTHONPATH, SUPPORT
from resources.training.rollout_log import read_log
from training_parts import EXPERIMENT, PATIENT, run_of, tiny_policy


def test_two_processes_score_whole_groups_once(tmp_path: Path):
    """Half of each group is sampled here, half there; the first scores and logs for both.

    The second waits for it as long as the run says. A check of the sampler covers both's tokens.
    """
    run = run_of(
        tmp_path / "run",
        tiny_policy(tmp_path / "base"),
        grpo=Grpo(group_size=4, per_device_batch=2, global_batch=4),
        optimization=replace(EXPERIMENT.optimization, warmup_ratio=0.0),
        held_out_claims=HeldOut(claims=2),
        limits=replace(PATIENT, most_wait_s=4_321),
    )
    run_file = tmp_path / "run.json"
    run_file.write_text(run.to_json(), "utf-8")
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    threads = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment = os.environ | {"PYTHONPATH": PYTHONPATH} | threads
    child = subprocess.run(
        [*words, str(SUPPORT / "training_process.py"), str(run_file)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == child.returncode, child.stderr
    ranks = sorted(one for one in child.stdout.splitlines() if one.startswith(("rank", "sampler")))
    # two steps, held-out claims before and after
    both = ["sampler 4 2.0"] * 2
    assert ["rank 0 2 2 6 4321", "rank 1 2 0 0 4321", *both] == ranks
    state = run.folder / "checkpoints" / "step-000002"
    logs = json.loads((state / "trainer_state.json").read_text("utf-8"))["log_history"]
    rollouts = read_log(run.folder, "rollouts")
    assert 8 == rollouts.height
    for step, logged in enumerate(one for one in logs if "loss" in one):
        totals = rollouts.filter(step=step)["total"]
        assert totals.mean() == pytest.approx(logged["reward"], abs=1e-6)
        assert totals.std() == pytest.approx(logged["reward_std"], abs=1e-6)
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= {path.name for path in state.iterdir()}
