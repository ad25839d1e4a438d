"""The wiring: the only place where everything is known."""
