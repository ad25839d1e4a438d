"""A batch's way from completions to amounts: scored, logged, kept for the step's measures."""

from collections.abc import Sequence
from dataclasses import dataclass

from decomposerl.training.curves import Split
from decomposerl.training.experiment import Experiment
from resources.training.batch import Sampled
from resources.training.rewards import Amounts, ScoredBatch, Scorer, shuffled_in_groups
from resources.training.rollout_log import RolloutLog


@dataclass(slots=True)
class Evaluation:
    """Scores batches of one run. ``last`` is the training batch that was scored last."""

    experiment: Experiment
    scorer: Scorer
    log: RolloutLog
    last: ScoredBatch | None = None

    def amounts(self, step: int, sampled: Sequence[Sampled]) -> Amounts:
        """Each active reward's amounts for a training batch.

        The log has them as they are, also where the recipe shuffles them for the trainer.
        """
        batch = self.scorer.score(step, sampled, self.experiment.grpo.group_size)
        self.log.write(batch)
        self.last = batch
        amounts: Amounts = batch.scoring.rewards.counted
        if self.experiment.shuffle_rewards:
            return shuffled_in_groups(amounts, sampled, self.experiment.seed, step)
        return amounts

    def held_out(
        self, step: int, split: Split, sampled: Sequence[Sampled], samples: int
    ) -> ScoredBatch:
        """A batch of held-out claims with ``samples`` completions each, scored and logged."""
        batch = self.scorer.score(step, sampled, samples)
        self.log.write(batch, split)
        return batch
