"""``python -m dagster_project`` runs the demo; Ctrl-C is handled from before the imports on."""

import sys

from dagster_project.terminal import print_failure
from decomposerl.errors import DecomposeRLError
from resources.process.interrupt import STAGES_KEPT, ends_soon


def run() -> int:
    """Run the demo; an error of its settings, which the imported graph reads, is one line."""
    try:
        from dagster_project.demo import main

        return main()
    except DecomposeRLError as error:
        print_failure(str(error))
        return 1


if __name__ == "__main__":
    with ends_soon(STAGES_KEPT):
        sys.exit(run())
