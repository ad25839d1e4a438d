"""Which claims each step samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import TrainingError
from decomposerl.training.experiment import Experiment, Grpo, Optimization, steps_of
from resources.training.trl_hooks import StepOrder


def order(claims: int, per_step: int, steps: int, seed: int = 1, **layout: int) -> StepOrder:
    return StepOrder(
        claims=claims, claims_a_step=per_step, group_size=3, steps=steps, seed=seed, **layout
    )


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 9))
def test_an_epoch_has_every_claim_and_no_step_has_one_twice(claims: int, per_step: int, seed: int):
    """Each epoch's steps hold all claims; claims that fill the last step come once more."""
    per_step = min(per_step, claims)
    batches = -(-claims // per_step)
    layout = order(claims, per_step, 2 * batches, seed)
    for epoch in range(2):
        steps = [layout.claims_of(epoch * batches + batch) for batch in range(batches)]
        assert all(len(set(step)) == per_step for step in steps)
        rows = [row for step in steps for row in step]
        assert set(range(claims)) == set(rows)
        assert set(range(claims)) == set(rows[:claims])


def test_epochs_differ_and_seeds_decide():
    """The second epoch has another order; equal seeds have equal orders, others do not."""
    first, second = ([order(9, 3, 6, s).claims_of(i) for i in range(6)] for s in (1, 2))
    assert first == [order(9, 3, 60, 1).claims_of(i) for i in range(6)]
    assert first != second
    assert first[:3] != first[3:]


@given(st.integers(2, 12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 7))
def test_a_loader_reads_groups_in_a_row(claims: int, reads: int, iterations: int, steps: int):
    """Each step is read so many times, its claims repeated; a batch lasts its iterations."""
    layout = order(claims, 2, steps, reads=reads, iterations=iterations)
    rows = list(layout)
    assert len(layout) == len(rows) == steps * reads * 2 * 3
    for step in range(steps):
        first, second = layout.claims_of(step - step % iterations)
        whole = [first] * 3 + [second] * 3
        part = rows[step * reads * 6 : (step + 1) * reads * 6]
        assert whole * reads == part


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_steps_of_a_recipe_are_whole_epochs(iterations: int):
    """A recipe samples every claim as often as there are epochs, however often it uses a batch."""
    grpo = Grpo(group_size=8, global_batch=16, iterations=iterations)
    recipe = Experiment("e", "e", optimization=Optimization(epochs=2.0), grpo=grpo)
    steps = steps_of(recipe, 11)
    layout = order(11, 2, steps, iterations=iterations)
    sampled = [row for step in range(0, steps, iterations) for row in layout.claims_of(step)]
    assert 12 * iterations == steps
    counts = [sampled.count(row) for row in range(11)]
    assert (2, 2 * 11 + 2) == (min(counts), sum(counts))  # two fill the last steps
    assert 5464 * iterations == steps_of(recipe, 5464)


def test_too_few_claims_are_refused():
    """One step samples different claims; fewer than it takes cannot be trained on."""
    with pytest.raises(TrainingError, match="1 training claims can be used, one step takes 2"):
        order(1, 2, 1)
