"""Systems to evaluate: a method, the model behind it, and the protocol of its calls.

The key of a ``System`` is the partition of its predictions and scores::

    self_ask-qwen2.5-7b-faithful    a prompted baseline
    minicheck-7b                    a verifier
    decomposerl-paper_7b            a trained policy, by its recipe
    decomposerl-paper_7b-seed_1     the same recipe, trained with another seed
    my-lora                         an entry of the user's systems.toml, by its name

The profile decides which engine serves a model.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Literal

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import Method, Procedure, Protocol
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import TRACE, VERIFIER, SystemEntry

POLICY_METHOD = "decomposerl"
POLICY_PROTOCOL = "trace"
SEED_MARK = "-seed_"
"""Between recipe and seed in the name of a policy; without it the seed is the recipe's own."""
SystemPort = Literal["rules", "open", "openai", "endpoint", "verifier", "policy", "entry"]
"""What answers; each is explained in ``resources/evaluation/model.py``."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model that answers.

    ``requested`` is its name in requests, empty where it has none; for a verifier the name of its
    engine. ``key`` of a policy is the name of its run. ``context`` is in tokens, 0 if not known.
    """

    key: str
    title: str
    port: SystemPort
    requested: str = ""
    context: int = 0

    @property
    def recipe(self) -> str:
        """Of a policy: what its runs of all seeds have in common; else the key."""
        return self.key.partition(SEED_MARK)[0]

    @property
    def seed(self) -> str:
        """The seed in a policy's name, ``seed 1``; empty for the recipe's own."""
        number = self.key.partition(SEED_MARK)[2]
        return f"seed {number}" if number else ""


_POLICY = (POLICY_METHOD, "DecomposeRL", POLICY_PROTOCOL)
_FURTHER = {TRACE: _POLICY, VERIFIER: (VERIFIER, "Verifier", "faithful")}
_TABLE = tomllib.loads(files(__package__).joinpath("models.toml").read_text("utf-8"))
CHAT_MODELS = tuple(Model(**row) for row in _TABLE["chat"])
VERIFIERS = tuple(Model(**row) for row in _TABLE["verifiers"])
CONTEXTS = {model.requested: model.context for model in CHAT_MODELS}
"""Tokens of prompt and reply together that a model reads, by its name in requests."""


@dataclass(frozen=True, slots=True)
class System:
    """A method with a model. ``protocol`` is the method's, ``trace`` for a policy.

    ``entry`` is the entry of ``systems.toml`` that it was made from.
    """

    method: str
    title: str
    model: Model
    protocol: str
    entry: SystemEntry | None = None

    @property
    def key(self) -> str:
        """The system's name: its partition, file name and argument of commands."""
        if self.entry is not None:
            return self.entry.name
        if self.model.port in {"verifier", "policy"}:
            return f"{self.method}-{self.model.key}"
        return f"{self.method}-{self.model.key}-{self.protocol}"

    @property
    def entry_digest(self) -> str:
        """The digest of its entry; empty for a system of the catalogue."""
        return "" if self.entry is None else self.entry.digest

    @property
    def reader_title(self) -> str:
        """Method and model, for display; an entry's title or name, as many may share a model."""
        if self.entry is not None:
            return self.entry.title or self.entry.name
        return f"{self.title} @ {self.model.title}"


def systems(
    methods: Iterable[Method],
    policies: Iterable[str],
    entries: Iterable[SystemEntry] = (),
    where: str = "systems.toml",
) -> tuple[System, ...]:
    """Each method with each model that can serve it, then the policies, in the order given.

    ``policies`` are names of training runs: recipe, or recipe and seed. Last are the ``entries`` of
    the file ``where``.

    Raises:
        ConfigError: two systems have the same key.
    """
    every = [
        System(method.name, method.title, model, protocol)
        for method in methods
        for model in (CHAT_MODELS if method.engine == "chat" else VERIFIERS)
        for protocol in _protocols(method)
    ]
    for name in policies:
        model = Model(name, name.replace(SEED_MARK, ", seed "), "policy")
        every.append(System(POLICY_METHOD, "DecomposeRL", model, POLICY_PROTOCOL))
    named = {method.name: method.title for method in ENTRY_METHODS}
    for entry in entries:
        own = (entry.method, named.get(entry.method, ""), entry.protocol)
        method, title, protocol = _FURTHER.get(entry.method, own)
        model = Model(entry.name, entry.model, "entry", entry.model)
        every.append(System(method, title, model, protocol, entry))
    keys = set[str]()
    for system in every:
        if system.key in keys:
            raise ConfigError(f"{where}: [{system.key}]: another system has this name")
        keys.add(system.key)
    return tuple(every)


def _protocols(method: Method) -> list[Protocol]:
    """The first protocol of each procedure; a verifier has one protocol, ``faithful``."""
    first: dict[Procedure, Protocol] = {}
    for protocol, procedure in method.procedures.items():
        first.setdefault(procedure, protocol)
    return list(first.values()) or ["faithful"]


def system_named(key: str, known: Sequence[System]) -> System:
    """The system with this key.

    Raises:
        ConfigError: there is none; the message names the systems with the key's method.
    """
    by_key = {system.key: system for system in known}
    if key in by_key:
        return by_key[key]
    own = [system.key for system in known if system.entry is not None]
    if near := get_close_matches(key, own, 3):
        raise ConfigError(f"there is no system '{key}'; systems.toml has {', '.join(near)}")
    method = key.partition("-")[0]
    of_method = [one.key for one in known if one.method == method and not one.model.seed]
    names = of_method or sorted({system.method for system in known})
    seeds = method == POLICY_METHOD and any(system.model.seed for system in known)
    more = ", and each with a further seed" * seeds
    raise ConfigError(f"there is no system '{key}'; there are {', '.join(names)}{more}")
