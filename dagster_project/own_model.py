"""A model of your own by options: ``--endpoint URL --model NAME``, for commands that ask a model.

``verify`` and ``evaluate`` make it an entry such as a table of ``systems.toml``, in a file of its
own in the data folder: the same checks, the same opener, and results under the entry's identity,
so that leaderboard, trace page and later commands know it. ``score`` makes it the judge.
"""

import hashlib
import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from dagster_project.environment import (
    NAMED_MODELS,
    entries_for,
    use_settings,
    variable_of,
)
from dagster_project.settings import Settings
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError
from resources.chat.connection import NoAnswer, fetched, key_of
from resources.store.temporary import replace_text

EndpointOption = Annotated[
    str, typer.Option("--endpoint", metavar="URL", help="Of your own model; it ends in /v1.")
]
ModelOption = Annotated[
    str, typer.Option("--model", metavar="NAME", help="Your model's name at --endpoint.")
]
KeyOption = Annotated[
    str, typer.Option("--key-env", metavar="NAME", help="Variable that holds the endpoint's key.")
]
MethodOption = Annotated[
    str, typer.Option("--method", help="How --model is asked; default: self_ask.")
]
_OPTIONS = {"base_url": "--endpoint", "model": "--model", "key": "--key-env", "method": "--method"}
_TIMEOUT_S = 5.0
OwnModel = dict[str, str]
"""What the options name, by the fields of an entry; ``method`` is not there for a judge."""


def named_model(
    endpoint: str, model: str, key: str, method: str | None = None, *, system: str = ""
) -> OwnModel:
    """The model that the options name; empty where none is given.

    ``method`` is None for a command that has no such option.

    Raises:
        ConfigError: one option lacks another, or ``--system`` names a second model.
    """
    if not (endpoint or model or key or method):
        return {}
    if not (endpoint and model):
        raise ConfigError("a model of your own needs both --endpoint URL and --model NAME")
    if method == "verifier":
        raise ConfigError(
            "a verifier has words of its own: decomposerl init systems shows its entry"
        )
    if system:
        raise ConfigError(f"--system {system} and --endpoint are two models: leave one out")
    own = {"base_url": endpoint.rstrip("/"), "model": model} | ({"key": key} if key else {})
    return own if method is None else own | {"method": method or "self_ask"}


def remembered(own: OwnModel, settings: Settings) -> str:
    """The name of the model's entry in the data folder, which is written at the first use.

    The name has method, model and a digest, as many servers have a model of one name.

    Raises:
        ConfigError: a value is wrong, or the key's variable is not set.
        EngineError: the server does not answer, or refuses the key.
    """
    method, model = own["method"], own["model"]
    digest = hashlib.sha256(json.dumps([own["base_url"], model]).encode()).hexdigest()[:6]
    asked, words = re.sub("[^a-z_]", "", method), model.rpartition("/")[2].lower()
    name = f"{asked}-{re.sub('[^a-z0-9]+', '-', words)[:50].strip('-')}-{digest}"
    values = own | {"title": f"{method} @ {model}"}
    text = f'["{name}"]\n'
    text += "".join(f"{field} = {json.dumps(value)}\n" for field, value in values.items())
    try:
        (entry,) = (one for one in entries_for(settings, text) if one.name == name)
    except ConfigError as error:
        raise _by_option(error, f"options: [{name}] {{}}:") from error
    file = settings.paths.data / NAMED_MODELS / f"{name}.toml"
    if not file.is_file() or file.read_text("utf-8") != text:
        _refuse_unreachable(entry)
        replace_text(file, text)
    return name


def use_as_judge(own: OwnModel, recorded: Path | None = None) -> None:
    """Make the model, if there is one, the judge of this process's settings.

    Raises:
        ConfigError, EngineError: as ``remembered``, or there are ``recorded`` rulings, too.
    """
    if not own:
        return
    if recorded is not None:
        raise ConfigError("--judge-calls and --endpoint are two judges: leave one out")
    try:
        judge = use_settings("judge", engine="chat", **own).judge
    except ConfigError as error:
        raise _by_option(error, f"{variable_of(('judge', ''))}{{}}:") from error
    if judge.key and "key" not in own:
        raise ConfigError(f"{judge.key} is the key of another judge: name yours with --key-env")
    _refuse_unreachable(judge)


def _by_option(error: ConfigError, place: str) -> ConfigError:
    """The mistakes in one line, each by its option in place of ``place``, which holds a field."""
    said = str(error).replace("the field key", _OPTIONS["key"])
    for field, option in _OPTIONS.items():
        for written in (field, field.upper()):
            said = said.replace(place.format(written), f"{option}:")
    return ConfigError("; ".join(said.splitlines()))


def _refuse_unreachable(endpoint: Endpoint) -> None:
    """Ask for the list of models, which also a server without the model answers."""
    (url,), key = endpoint.base_url, key_of(endpoint).get_secret_value()
    try:
        fetched(f"{url}/models", key, _TIMEOUT_S)
    except NoAnswer as error:
        if error.status == HTTPStatus.NOT_FOUND and not url.endswith("/v1"):
            raise EngineError(f"{url} has no list of models: most endpoints end in /v1") from error
        if error.refused:
            fix = f"check the key in {endpoint.key_variable}" if key else "name it with --key-env"
            raise EngineError(f"{url} wants another key (HTTP {error.status}): {fix}") from error
        if error.status < HTTPStatus.BAD_REQUEST:  # none, or a redirect
            fix = "start its server, or correct --endpoint"
            raise EngineError(f"{url} {error}: {fix}") from error
