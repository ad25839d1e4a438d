"""Environments of commands, and what they print."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def variables(**values: object) -> dict[str, str]:
    """The project's variables of these names."""
    return {f"DECOMPOSERL_{name}": str(value) for name, value in values.items()}


@contextmanager
def having(**values: str) -> Iterator[None]:
    """Further variables of this process, in the block alone."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def lacking(text: str, *words: str) -> list[str]:
    """The words that a text does not have."""
    return [word for word in words if word not in text]
