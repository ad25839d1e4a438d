"""Make the checkpoint of the tiny policy anew, and say how good it is.

``python -m studies.warm_start`` writes ``resources/policy_tiny/tiny_policy``; ``--control FOLDER``
also keeps the model that never saw a flawed trace. On one machine the same settings give the same
bytes; elsewhere the arithmetic may round otherwise, and the figures of ``docs/training.md`` come
out alike within some hundredths.

Left out deliberately: GRPO (``studies.learning_study``).
"""

import argparse
import dataclasses
import time
from pathlib import Path

from resources.policy_tiny.folder import CHECKPOINT
from resources.policy_tiny.warm_start import WarmStart, warm_start

_TOLD_EVERY = 100


def main() -> None:
    """Train, save, and print the loss on the way."""
    options = _options()
    settings = WarmStart()
    if options.steps:
        settings = dataclasses.replace(settings, steps=options.steps)
    started = time.perf_counter()

    def tell(step: int, loss: float) -> None:
        if step % _TOLD_EVERY == 0:
            print(f"{step} {time.perf_counter() - started:.0f} s  loss {loss:.3f}", flush=True)

    folder = warm_start(settings, options.out, tell, options.control)
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()):,} bytes")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=CHECKPOINT, help="folder to write")
    parser.add_argument("--control", type=Path, help="folder for the model on clean traces alone")
    parser.add_argument("--steps", type=int, default=0, help="instead of the settings' number")
    return parser.parse_args()


if __name__ == "__main__":
    main()
