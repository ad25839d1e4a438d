"""Parse and check single environment variables of ``.env.example``.

Each function takes the environment and a variable's name, and gives a plain value. Error messages
never repeat a URL, because it may contain a secret.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from decomposerl.chat import Price
from decomposerl.errors import ConfigError
from resources.vllm.process import program_of

Env = Mapping[str, str]
Thinking = Literal["default", "off", "on"]
GenerationName = Literal["transformers", "vllm_colocate", "vllm_server"]
EXAMPLE_URL = "http://127.0.0.1:8000/v1"
_KEY = re.compile(r"(\w*_)?KEY", re.IGNORECASE)
_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
_MOST_PRICES = 2
_OWNER = re.compile(r"team:.+|[^@\s]+@[^@\s]+\.[^@\s]+")
PREFIX = "DECOMPOSE"  # the start of our variables, even of misspelt ones
_ALIKE = 0.85
# What Kubernetes gives every pod of a namespace where a Service is named decomposerl, or begins so.
_SERVICE = re.compile(
    r"DECOMPOSERL_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


class RecordingEnvironment(dict[str, str]):
    """An environment that records the names of the variables that are read."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - dict's signature
        """Record the name and get its value."""
        self.names.add(name)
        return super().get(name, default)


def refuse_unknown(env: Env, known: Collection[str]) -> None:
    """Refuse a misspelt variable: one that is named like ours but is not in ``known``.

    Variables that Kubernetes sets for its Services are left alone.

    Raises:
        ConfigError: there is one; the message has the nearest name, and no value.
    """
    ours = sorted(name for name in known if name.startswith(PREFIX))
    unknown = [name for name in env if name not in known and _resembles(name, ours)]
    if unknown:
        messages = "; ".join(_unknown_message(name, ours) for name in sorted(unknown))
        raise ConfigError(f"{messages}. .env.example documents every variable")


def _resembles(name: str, ours: Sequence[str]) -> bool:
    """Whether the name is probably a misspelling of one of ours."""
    if _SERVICE.fullmatch(name):
        return False
    plain = name.strip("\ufeff \t").upper()  # a file may begin with a byte-order mark
    return plain.startswith(PREFIX) or bool(get_close_matches(plain, ours, 1, _ALIKE))


def _unknown_message(name: str, ours: Sequence[str]) -> str:
    near = get_close_matches(name.strip("\ufeff \t").upper(), ours, 1, 0)
    return f"there is no variable {name!r}; the nearest is {near[0]}"


def endpoint_urls(env: Env, variable: str, default: str, *, most: int = 0) -> tuple[str, ...]:
    """The comma-separated URLs of a variable, at most ``most`` (0: any number).

    Raises:
        ConfigError: there is none or too many, or one is not a plain http(s) URL.
    """
    value = env.get(variable) or default
    urls = tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())
    if value and not urls:
        raise ConfigError(f"{variable} names no URL; it must be one such as {EXAMPLE_URL}")
    if most and len(urls) > most:
        raise ConfigError(f"{variable} names {len(urls)} URLs; it must be exactly one")
    for url in urls:
        _refuse_bad_url(url, variable)
    return urls


def _refuse_bad_url(url: str, variable: str) -> None:
    try:
        parts = urlsplit(url)
        plain = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # unclosed brackets or a bad port; urlsplit's message repeats the URL
        raise ConfigError(
            f"{variable} holds a malformed URL; it must be one such as {EXAMPLE_URL}"
        ) from None
    if not plain:
        raise ConfigError(f"{variable} is not an http(s) URL such as {EXAMPLE_URL}")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ConfigError(
            f"{variable} holds a URL with a user, password, query or fragment; it must be a plain "
            f"one such as {EXAMPLE_URL}, and the key goes into its own variable"
        )


def price(env: Env, variable: str) -> Price | None:
    """US dollars per million tokens, ``prompt`` or ``prompt/completion``; None where unset.

    Raises:
        ConfigError: it is not one or two amounts of 0 or more.
    """
    value = env.get(variable)
    if not value:
        return None
    parts = value.split("/")
    try:
        amounts = [_amount(part) for part in parts]
    except ValueError:
        amounts = []
    if not 1 <= len(amounts) <= _MOST_PRICES:
        raise ConfigError(
            f"{variable} is '{value}'; it must be dollars per million tokens, prompt/completion, "
            "0 or more, such as 0.25/2.00"
        )
    return Price(*amounts)


def dollars(env: Env, variable: str) -> float:
    """An amount of US dollars; 0 where unset.

    Raises:
        ConfigError: it is not a number of 0 or more.
    """
    value = env.get(variable) or "0"
    try:
        return _amount(value)
    except ValueError as error:
        raise ConfigError(
            f"{variable} is '{value}'; it must be a number of US dollars, 0 or more, such as 100"
        ) from error


def _amount(value: str) -> float:
    amount = float(value)
    if not math.isfinite(amount) or amount < 0:
        raise ValueError(value)
    return amount


def tokens(env: Env, variable: str) -> int:
    """A number of tokens; 0 where unset.

    Raises:
        ConfigError: it is not a whole number of 1 or more.
    """
    value = (env.get(variable) or "").strip()
    if value and (not value.isdecimal() or int(value) < 1):
        raise ConfigError(f"{variable} is '{value}'; it must be a whole number of 1 or more")
    return int(value or 0)


def cards(env: Env, variable: str) -> int:
    """A number of GPUs; 1 where unset.

    Raises:
        ConfigError: it is not a whole number of 1 or more.
    """
    value = (env.get(variable) or "1").strip()
    if not value.isdecimal() or int(value) < 1:
        raise ConfigError(f"{variable} is '{value}'; it must be a whole number of 1 or more")
    return int(value)


def device(env: Env, variable: str) -> str:
    """A torch device name; the CPU where unset.

    Raises:
        ConfigError: it is not a device that models run on.
    """
    value = env.get(variable) or "cpu"
    if not _DEVICE.fullmatch(value):
        raise ConfigError(
            f"{variable} is '{value}'; it must be cpu, mps, cuda, or cuda:N for GPU N"
        )
    return value


def one_of(env: Env, variable: str, words: Sequence[str]) -> str:
    """One of ``words``; the first where unset.

    Raises:
        ConfigError: it is none of them.
    """
    value = env.get(variable) or words[0]
    if value not in words:
        raise ConfigError(f"{variable} is '{value}'; it must be one of {', '.join(words)}")
    return value


def thinking(env: Env, variable: str) -> tuple[Thinking | None, int]:
    """Whether a model thinks, and the most tokens of a thought; (None, 0) where unset, 0: any.

    Raises:
        ConfigError: it is neither one of the words nor a whole number of 1 or more.
    """
    value = env.get(variable)
    for word in get_args(Thinking):
        if value == word:
            return word, 0
    if value and not (value.isdecimal() and int(value)):
        words = ", ".join(get_args(Thinking))
        raise ConfigError(f"{variable} is '{value}'; it must be {words}, or a number of tokens")
    return ("on", int(value)) if value else (None, 0)


def command(env: Env, variable: str, default: str) -> tuple[str, ...]:
    """The words of a command.

    Raises:
        ConfigError: none of them names a program.
    """
    words = tuple((env.get(variable) or default).split())
    if not program_of(words):
        raise ConfigError(f"{variable} names no program; it must be a command such as: {default}")
    return words


def generation(env: Env) -> dict[str, Any]:
    """The engine that samples the policy in training, and the URL of a separate server.

    Raises:
        ConfigError: it is unknown, or has no URL where it needs one.
    """
    engine = one_of(env, "DECOMPOSERL_GENERATION", get_args(GenerationName))
    urls = endpoint_urls(env, "DECOMPOSERL_GENERATION_URL", "", most=1)
    if engine == "vllm_server" and not urls:
        raise ConfigError(
            "DECOMPOSERL_GENERATION is vllm_server; DECOMPOSERL_GENERATION_URL must name that "
            "server, such as http://127.0.0.1:8003"
        )
    return {"generation": engine, "generation_url": urls[0] if urls else ""}


def names_of_keys(env: Env) -> tuple[str, ...]:
    """The variables that contain a key by their name: ``KEY`` or one that ends in ``_KEY``."""
    return tuple(sorted(name for name in env if _KEY.fullmatch(name)))


def owners(env: Env, variable: str) -> tuple[str, ...]:
    """Owners of assets, comma-separated: e-mail addresses, or teams as ``team:name``.

    Raises:
        ConfigError: one is neither, which Dagster would refuse.
    """
    named = tuple(filter(None, (one.strip() for one in (env.get(variable) or "").split(","))))
    for one in named:
        if not _OWNER.fullmatch(one):
            raise ConfigError(f"{variable} has '{one}'; an owner is an e-mail address or team:name")
    return named
