"""The synthetic world that the bundled sample is generated from."""
