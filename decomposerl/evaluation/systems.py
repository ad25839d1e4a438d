"""Systems to evaluate: a method, the model behind it, and the protocol of its calls.

The key of a ``System`` is the partition of its predictions and scores, so a run of one model never
overwrites another's::

    self_ask-qwen2.5-7b-faithful    a prompted baseline
    minicheck-7b                    a verifier
    decomposerl-paper_7b            a trained policy, by its recipe

The profile decides which engine serves a model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.baselines.method import Method, Procedure, Protocol
from decomposerl.errors import ConfigError

POLICY_METHOD = "decomposerl"
POLICY_PROTOCOL = "trace"
SystemPort = Literal[
    "rules",  # the project's own rules, no model
    "open",  # an open model, at an endpoint or on a server that the run starts
    "openai",  # a model of api.openai.com
    "endpoint",  # the model of your own endpoint
    "verifier",  # the profile's claim verifier
    "policy",  # a policy trained here
]


@dataclass(frozen=True, slots=True)
class Model:
    """A model that answers.

    ``requested`` is its name in requests, empty where it has none; for a verifier the name of its
    engine.
    """

    key: str
    title: str
    port: SystemPort
    requested: str = ""


CHAT_MODELS: tuple[Model, ...] = (
    Model("rules", "rules", "rules"),
    Model("qwen2.5-3b", "Qwen2.5-3B-Instruct", "open", "Qwen/Qwen2.5-3B-Instruct"),
    Model("qwen2.5-7b", "Qwen2.5-7B-Instruct", "open", "Qwen/Qwen2.5-7B-Instruct"),
    Model("qwen2.5-14b", "Qwen2.5-14B-Instruct", "open", "Qwen/Qwen2.5-14B-Instruct"),
    Model("qwen2.5-32b", "Qwen2.5-32B-Instruct", "open", "Qwen/Qwen2.5-32B-Instruct"),
    Model("gpt-4.1-mini", "GPT-4.1-mini", "openai", "gpt-4.1-mini"),
    Model("endpoint", "your own model", "endpoint"),
)
VERIFIERS: tuple[Model, ...] = (
    Model("lexical", "lexical verifier", "verifier", "embedded"),
    Model("flan-t5-large", "MiniCheck-Flan-T5-Large", "verifier", "minicheck_local"),
    Model("7b", "Bespoke-MiniCheck-7B", "verifier", "minicheck_hosted"),
)


CONTEXTS = dict.fromkeys((one.requested for one in CHAT_MODELS if one.port == "open"), 32_768) | {
    "gpt-4.1-mini": 1_047_576
}
"""Tokens of prompt and reply together that a model reads, by its name in requests."""


@dataclass(frozen=True, slots=True)
class System:
    """A method with a model. ``protocol`` is the method's, ``trace`` for a policy."""

    method: str
    title: str
    model: Model
    protocol: str

    @property
    def key(self) -> str:
        """The system's name: its partition, file name and argument of commands."""
        if self.model.port in {"verifier", "policy"}:
            return f"{self.method}-{self.model.key}"
        return f"{self.method}-{self.model.key}-{self.protocol}"

    @property
    def reader_title(self) -> str:
        """Method and model, for display."""
        return f"{self.title} @ {self.model.title}"


def systems(methods: Iterable[Method], policies: Iterable[str]) -> tuple[System, ...]:
    """Each method with each model that can serve it, then the policies, in the order given.

    ``policies`` are names of recipes. Keys are distinct.

    Raises:
        ConfigError: two systems have the same key.
    """
    every = [
        System(method.name, method.title, model, protocol)
        for method in methods
        for model in (CHAT_MODELS if method.engine == "chat" else VERIFIERS)
        for protocol in _protocols(method)
    ]
    every += [
        System(POLICY_METHOD, "DecomposeRL", Model(name, name, "policy"), POLICY_PROTOCOL)
        for name in policies
    ]
    keys = [one.key for one in every]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ConfigError(f"two systems are named {twice[0]}")
    return tuple(every)


def _protocols(method: Method) -> list[Protocol]:
    """The protocols that have a procedure; a verifier has one protocol, ``faithful``."""
    if method.engine == "verifier":
        return ["faithful"]
    first: dict[Procedure, Protocol] = {}
    for protocol, procedure in method.procedures.items():
        first.setdefault(procedure, protocol)
    return list(first.values())


def system_named(key: str, known: Sequence[System]) -> System:
    """The system with this key.

    Raises:
        ConfigError: there is none; the message names the systems with the key's method.
    """
    for one in known:
        if one.key == key:
            return one
    method = key.partition("-")[0]
    near = [one.key for one in known if one.method == method]
    names = near or sorted({one.method for one in known})
    raise ConfigError(f"there is no system '{key}'; there are {', '.join(names)}")
