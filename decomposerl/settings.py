"""The base class of the domain's settings, and what is wrong with settings that a user wrote."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from pydantic import BaseModel, ConfigDict, ValidationError


class Settings(BaseModel):
    """A frozen group of settings; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def mistakes(error: ValidationError, keys: Sequence[str], what: str) -> Iterator[str]:
    """A line for every mistake in a TOML file of the user, with its key.

    ``keys`` may be in it: for one that is unknown, no ``what``, the most similar of them is named.
    """
    for mistake in error.errors(include_url=False, include_input=False):
        key, said = ".".join(map(str, mistake["loc"])), mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            names = {whole.rpartition(".")[2]: whole for whole in reversed(keys)}
            near = get_close_matches(str(mistake["loc"][-1]), names, 1, 0.5)
            known = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(keys)}"
            said = f"is no {what}; {known}"
        said = "is missing" if mistake["type"] == "missing" else said
        yield from (f"{key}: {line}".removeprefix(": ") for line in said.split("\n"))
