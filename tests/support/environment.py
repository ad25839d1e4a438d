"""Environments of commands, settings and resources by variables, and what commands print."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from dagster_project.settings import Settings


def variables(**values: object) -> dict[str, str]:
    """The project's variables of these names."""
    return {f"DECOMPOSERL_{name}": str(value) for name, value in values.items()}


def thinking(word: str) -> dict[str, str]:
    """The variables of a judge that thinks so, or at most so many tokens."""
    if word.isdecimal():
        bound = {"JUDGE__THINKING_TOKENS": word, "JUDGE__BOUND_THINKING": "yes"}
        return variables(JUDGE__THINKING="on", **bound)
    return variables(JUDGE__THINKING=word)


def settings_of(
    data: Path,
    corpora: Path | None = None,
    profile: str = "embedded",
    env: Mapping[str, str] | None = None,
) -> Settings:
    """The settings of these variables alone, with a data folder."""
    return read_settings(
        {"DECOMPOSERL_PROFILE": profile, **(env or {})}, data=data, corpora=corpora
    )


def resources_of(
    profile: str, data: Path, env: Mapping[str, str] | None = None, *, mapped: bool = False
) -> dict[str, Any]:
    """The resources of these variables alone."""
    return resources_for(settings_of(data, profile=profile, env=env), mapped=mapped)


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
