"""``python -m dagster_project`` is the demo, guarded against Ctrl-C while it still loads.

Left out deliberately: everything else (``demo``).
"""

import sys

from resources.process.interrupt import STAGES_KEPT, ends_soon

if __name__ == "__main__":
    with ends_soon(STAGES_KEPT):
        from dagster_project.demo import main

        sys.exit(main())
