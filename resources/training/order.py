"""Which claims each step samples: a function of seed and step, so that a resumed run agrees.

Takes the number of claims and the recipe, gives the rows that the data loader draws, for the
whole run as one epoch. TRL's own sampler draws a new order each epoch from a generator that a
resumed run begins anew, and leaves an incomplete last batch out.
"""

from collections.abc import Iterator

import numpy as np

from decomposerl.errors import TrainingError


class StepOrder:
    """Rows of a run's claims in the order in which a loader reads them.

    A batch of claims makes ``iterations`` steps, and a step reads it ``reads`` times (once a
    micro-batch; TRL samples at the first and passes over the others). Within a batch each
    claim stands ``group_size`` times in a row.
    """

    def __init__(  # noqa: PLR0913 - the layout of a run, by name
        self,
        *,
        claims: int,
        claims_a_step: int,
        group_size: int,
        steps: int,
        seed: int,
        iterations: int = 1,
        reads: int = 1,
    ) -> None:
        """``steps`` optimizer steps.

        Raises:
            TrainingError: there are fewer claims than one step takes.
        """
        if claims < claims_a_step:
            raise TrainingError(
                f"{claims} training claims can be used, one step takes {claims_a_step}"
            )
        self._claims, self._per_step, self._seed = claims, claims_a_step, seed
        self._group_size, self._steps = group_size, steps
        self._iterations, self._reads = iterations, reads

    def claims_of(self, step: int) -> list[int]:
        """The rows of the claims of a step, from 0; all different.

        Each epoch is a new order of all claims. Where its last batch is incomplete, the first
        claims of the same order fill it.
        """
        batches = -(-self._claims // self._per_step)
        epoch, batch = divmod(step // self._iterations, batches)
        order = np.random.default_rng([self._seed, epoch]).permutation(self._claims)
        first = batch * self._per_step
        places = [place % self._claims for place in range(first, first + self._per_step)]
        return [int(order[place]) for place in places]

    def __iter__(self) -> Iterator[int]:
        """Every row that the loader reads, in order."""
        for step in range(self._steps):
            rows = [row for row in self.claims_of(step) for _ in range(self._group_size)]
            for _ in range(self._reads):
                yield from rows

    def __len__(self) -> int:
        """How many rows that is."""
        return self._steps * self._reads * self._per_step * self._group_size
