"""Train the checkpoints of the tiny policy again, and print their loss.

``python -m studies.warm_start`` writes ``tiny_policy`` and, as its control, ``tiny_policy_clean``
in ``resources/policy_tiny``: the model that saw only clean traces. With ``--base`` it writes one of
the other two. The same settings give the same bytes on one machine; on another, rounding may move
the figures of ``docs/results/learning.md`` by some hundredths.
"""

import argparse
import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from decomposerl.training.experiment import BASE_POLICY, CLEAN_POLICY
from resources.policy_tiny.folder import CHECKPOINTS
from studies.tiny_policy.warm_start import SETTINGS, warm_start

_PRINT_EVERY = 100


def main(words: Sequence[str] | None = None) -> None:
    """Train and save, printing the loss during training."""
    options = _options(words)
    settings = SETTINGS[options.base]
    if options.steps:
        settings = dataclasses.replace(settings, steps=options.steps)
    started = time.perf_counter()

    def print_loss(step: int, loss: float) -> None:
        if step % _PRINT_EVERY == 0:
            print(f"{step} {time.perf_counter() - started:.0f} s  loss {loss:.3f}", flush=True)

    control = options.control if options.base == BASE_POLICY else None
    out = options.out or CHECKPOINTS[options.base]
    folder = warm_start(settings, out, print_loss, control)
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()):,} bytes")


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", choices=[*SETTINGS], default=BASE_POLICY, help="which one")
    parser.add_argument("--out", type=Path, help="folder to write; default: the project's own")
    parser.add_argument(
        "--control",
        type=Path,
        default=CHECKPOINTS[CLEAN_POLICY],
        help="folder for the model trained on clean traces only, beside base_policy",
    )
    parser.add_argument(
        "--steps", type=int, default=0, help="number of steps, instead of the settings'"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
