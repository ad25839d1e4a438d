"""What one variable of ``.env.example`` may hold, and the sentence where it holds something else.

Takes the environment and a variable's name, gives a plain value. An URL is never repeated in
a message, because what is wrong with it may be that it holds a secret.

Left out deliberately: which variables there are (``engine_choices``), and the environment
(``profiles``).
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from decomposerl.chat import Price
from decomposerl.errors import ConfigError
from resources.vllm.command import program_of

Env = Mapping[str, str]
EXAMPLE_URL = "http://127.0.0.1:8000/v1"
_KEY = re.compile(r"(\w*_)?KEY", re.IGNORECASE)
_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
_MOST_PRICES = 2
_PREFIX = "DECOMPOSE"  # so begin our variables, also where the rest is misspelt
_ALIKE = 0.85


class AskedVariables(dict[str, str]):
    """An environment that keeps the names of the variables that were asked for."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as of a dict
        """As of a dict."""
        self.names.add(name)
        return super().get(name, default)


def refuse_unknown(env: Env, known: Collection[str]) -> None:
    """Let no misspelt variable pass: one that is named like ours must be one of ``known``.

    Raises:
        ConfigError: there is one that is not; the message has the nearest name, and no value.
    """
    ours = sorted(name for name in known if name.startswith(_PREFIX))
    strange = [name for name in env if name not in known and _is_meant(name, ours)]
    if strange:
        said = "; ".join(_not_known(name, ours) for name in sorted(strange))
        raise ConfigError(f"{said}. .env.example documents every variable")


def _is_meant(name: str, ours: Sequence[str]) -> bool:
    """Whether a person who wrote this name meant one of ours."""
    plain = name.strip("\ufeff \t").upper()  # a file may begin with a byte-order mark
    return plain.startswith(_PREFIX) or bool(get_close_matches(plain, ours, 1, _ALIKE))


def _not_known(name: str, ours: Sequence[str]) -> str:
    near = get_close_matches(name.strip("\ufeff \t").upper(), ours, 1, 0)
    return f"there is no variable {name!r}; the nearest is {near[0]}"


def endpoint_urls(env: Env, variable: str, default: str, *, most: int = 0) -> tuple[str, ...]:
    """The URLs of a variable, apart by commas, at most so many (0: any number).

    Raises:
        ConfigError: there is none or too many, or one is no http(s) URL or is more than a place.
    """
    said = env.get(variable) or default
    urls = tuple(part.strip().rstrip("/") for part in said.split(",") if part.strip())
    if said and not urls:
        raise ConfigError(f"{variable} names no URL; it must hold one such as {EXAMPLE_URL}")
    if most and len(urls) > most:
        raise ConfigError(f"{variable} names {len(urls)} URLs; it must hold one alone")
    for url in urls:
        _refuse_strange_url(url, variable)
    return urls


def _refuse_strange_url(url: str, variable: str) -> None:
    try:
        parts = urlsplit(url)
        plain = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number; it says which
        raise ConfigError(
            f"{variable} holds a malformed URL; it must be one such as {EXAMPLE_URL}"
        ) from None
    if not plain:
        raise ConfigError(f"{variable} is not an http(s) URL such as {EXAMPLE_URL}")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ConfigError(
            f"{variable} holds a URL with a user, password, query or fragment; it must be a plain "
            f"one such as {EXAMPLE_URL}, and a key stands in a variable of its own"
        )


def price(env: Env, variable: str) -> Price | None:
    """US dollars a million tokens, ``prompt`` or ``prompt/completion``; None where unset.

    Raises:
        ConfigError: it is not one or two amounts of 0 or more.
    """
    said = env.get(variable)
    if not said:
        return None
    parts = said.split("/")
    try:
        amounts = [_amount(part) for part in parts]
    except ValueError:
        amounts = []
    if not 1 <= len(amounts) <= _MOST_PRICES:
        raise ConfigError(
            f"{variable} is '{said}'; it must be US dollars a million tokens, prompt/completion, "
            "0 or more, such as 0.25/2.00"
        )
    return Price(*amounts)


def dollars(env: Env, variable: str) -> float:
    """A sum of money; 0 where unset.

    Raises:
        ConfigError: it is no number of 0 or more.
    """
    said = env.get(variable) or "0"
    try:
        return _amount(said)
    except ValueError as error:
        raise ConfigError(
            f"{variable} is '{said}'; it must be a number of US dollars, 0 or more, such as 100"
        ) from error


def _amount(said: str) -> float:
    amount = float(said)
    if not math.isfinite(amount) or amount < 0:
        raise ValueError(said)
    return amount


def cards(env: Env, variable: str) -> int:
    """A number of cards; 1 where unset.

    Raises:
        ConfigError: it is no whole number of 1 or more.
    """
    said = (env.get(variable) or "1").strip()
    if not said.isdecimal() or int(said) < 1:
        raise ConfigError(f"{variable} is '{said}'; it must be a whole number of 1 or more")
    return int(said)


def device(env: Env, variable: str) -> str:
    """A device as torch names it; the CPU where unset.

    Raises:
        ConfigError: it is none that models are put on.
    """
    said = env.get(variable) or "cpu"
    if not _DEVICE.fullmatch(said):
        raise ConfigError(
            f"{variable} is '{said}'; it must be cpu, mps, cuda, or cuda:N for card N, as torch "
            "names them"
        )
    return said


def one_of(env: Env, variable: str, words: Sequence[str]) -> str:
    """One of some words; the first where unset.

    Raises:
        ConfigError: it is none of them.
    """
    said = env.get(variable) or words[0]
    if said not in words:
        raise ConfigError(f"{variable} is '{said}'; it must be one of {', '.join(words)}")
    return said


def command(env: Env, variable: str, default: str) -> tuple[str, ...]:
    """The first words of a command.

    Raises:
        ConfigError: no word of them names a program.
    """
    words = tuple((env.get(variable) or default).split())
    if not program_of(words):
        raise ConfigError(f"{variable} names no program; it must hold words such as: {default}")
    return words


def names_of_keys(env: Env) -> tuple[str, ...]:
    """The variables whose name says that they hold a key: it is ``KEY`` or ends in ``_KEY``."""
    return tuple(sorted(name for name in env if _KEY.fullmatch(name)))
