"""One setting for every property test: a slow example on a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
