"""The state of every random generator that a training step draws from."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RandomState:
    """Python's, NumPy's and torch's global generators at one moment."""

    python: Any
    numpy: Any
    torch: Any
    cuda: list[Any]

    @classmethod
    def now(cls) -> "RandomState":
        """A copy of the present state."""
        import numpy as np
        import torch

        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return cls(random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda)  # noqa: NPY002 - libraries draw from the global one

    def restore(self) -> None:
        """Go on from here."""
        import numpy as np
        import torch

        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002 - as above
        torch.set_rng_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)


@contextmanager
def seeded_aside(seed: int) -> Iterator[None]:
    """Draw from ``seed`` inside; outside nothing has been drawn."""
    import torch

    before = RandomState.now()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        before.restore()
