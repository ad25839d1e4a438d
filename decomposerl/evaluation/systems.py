"""What is evaluated: a method, the model behind it, and the protocol it is asked by.

Takes the baselines and the names of trained policies, gives ``System`` values whose keys are the
partitions of predictions and scores, so that a run of one model never overwrites another's::

    self_ask-qwen2.5-7b-faithful    a prompted baseline
    minicheck-7b                    a verifier
    decomposerl-paper_7b            a trained policy, by its recipe

A model is a key, not code: what serves it is for the profile to say.

Left out deliberately: engines and endpoints (``resources.evaluation``), recipes (their names come
in as words, because an exam does not know the coach), and which systems a profile can run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.baselines.method import Method, Procedure, Protocol
from decomposerl.errors import ConfigError

POLICY_METHOD = "decomposerl"
POLICY_PROTOCOL = "trace"
Port = Literal[
    "rules",  # the project's own rules, without any model
    "open",  # an open model at an endpoint that serves it, or on a server that is started
    "openai",  # a model of api.openai.com
    "endpoint",  # whatever a person's own endpoint serves
    "verifier",  # the profile's claim verifier
    "policy",  # a policy that was trained here
]


@dataclass(frozen=True, slots=True)
class Model:
    """A model that answers. ``requested`` is its name in requests, empty where it has none.

    Of a verifier ``requested`` is the engine of the verifier's port.
    """

    key: str
    title: str
    port: Port
    requested: str = ""


CHAT_MODELS: tuple[Model, ...] = (
    Model("rules", "rules", "rules"),
    Model("qwen2.5-3b", "Qwen2.5-3B-Instruct", "open", "Qwen/Qwen2.5-3B-Instruct"),
    Model("qwen2.5-7b", "Qwen2.5-7B-Instruct", "open", "Qwen/Qwen2.5-7B-Instruct"),
    Model("qwen2.5-14b", "Qwen2.5-14B-Instruct", "open", "Qwen/Qwen2.5-14B-Instruct"),
    Model("qwen2.5-32b", "Qwen2.5-32B-Instruct", "open", "Qwen/Qwen2.5-32B-Instruct"),
    Model("gpt-4.1-mini", "GPT-4.1-mini", "openai", "gpt-4.1-mini"),
    Model("endpoint", "a model of one's own", "endpoint"),
)
VERIFIERS: tuple[Model, ...] = (
    Model("lexical", "lexical verifier", "verifier", "embedded"),
    Model("flan-t5-large", "MiniCheck-Flan-T5-Large", "verifier", "minicheck_local"),
    Model("7b", "Bespoke-MiniCheck-7B", "verifier", "minicheck_hosted"),
)


@dataclass(frozen=True, slots=True)
class System:
    """One thing that is evaluated. ``protocol`` is the method's, ``trace`` for a policy."""

    method: str
    title: str
    model: Model
    protocol: str

    @property
    def key(self) -> str:
        """Its partition: file name, row of the leaderboard, word of a command."""
        if self.model.port in {"verifier", "policy"}:
            return f"{self.method}-{self.model.key}"
        return f"{self.method}-{self.model.key}-{self.protocol}"

    @property
    def reader_title(self) -> str:
        """What a reader is told beside the protocol: method and model."""
        return f"{self.title} @ {self.model.title}"


def systems(methods: Iterable[Method], policies: Iterable[str]) -> tuple[System, ...]:
    """Every system: each method over each model that can serve it, then the policies.

    ``policies`` are the names of recipes. The order is that of the arguments; keys are distinct.

    Raises:
        ConfigError: two systems have the same key.
    """
    found = [
        System(method.name, method.title, model, protocol)
        for method in methods
        for model in (CHAT_MODELS if method.engine == "chat" else VERIFIERS)
        for protocol in _protocols(method)
    ]
    found += [
        System(POLICY_METHOD, "DecomposeRL", Model(name, name, "policy"), POLICY_PROTOCOL)
        for name in policies
    ]
    keys = [one.key for one in found]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ConfigError(f"two systems are named {twice[0]}")
    return tuple(found)


def _protocols(method: Method) -> list[Protocol]:
    """Protocols that are one procedure count once; a verifier has no procedure and one protocol."""
    if method.engine == "verifier":
        return ["faithful"]
    first: dict[Procedure, Protocol] = {}
    for protocol, procedure in method.procedures.items():
        first.setdefault(procedure, protocol)
    return list(first.values())


def system_named(key: str, known: Sequence[System]) -> System:
    """The system of a key.

    Raises:
        ConfigError: there is none; the message names those whose method is the key's.
    """
    for one in known:
        if one.key == key:
            return one
    method = key.partition("-")[0]
    near = [one.key for one in known if one.method == method]
    names = near or sorted({one.method for one in known})
    raise ConfigError(f"there is no system '{key}'; there are {', '.join(names)}")
