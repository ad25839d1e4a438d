"""``python -m dagster_project`` runs the demo; Ctrl-C is handled from before the imports on."""

import sys

from resources.process.interrupt import STAGES_KEPT, ends_soon

if __name__ == "__main__":
    with ends_soon(STAGES_KEPT):
        from dagster_project.demo import main

        sys.exit(main())
