"""The wiring: the only place where everything is known."""

import gc

# Python looks for garbage after every 700 new objects; loading the graph makes a million that stay,
# and looking through them took a tenth of a start and of a run's own time.
gc.set_threshold(50_000)
