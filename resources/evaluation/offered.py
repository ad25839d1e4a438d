"""Which systems a profile can run, and the partitions of the evaluation in that order.

A partition that cannot run stays: its results may have been made under another profile.
"""

from collections.abc import Container, Sequence
from typing import Protocol

import dagster as dg

from decomposerl.evaluation.systems import System
from resources.evaluation.served_policy import ServedModels

_URLS = {
    "open": "DECOMPOSERL_EVALUATION_URL",
    "policy": "DECOMPOSERL_EVALUATION_URL",
    "endpoint": "DECOMPOSERL_ENDPOINT_URL",
}


class Places(Protocol):
    """Where a profile's models run: ``EvaluationModelResource``."""

    @property
    def open_models(self) -> ServedModels:
        """Open models, by the names of a hub."""
        ...

    @property
    def openai(self) -> ServedModels:
        """Models of api.openai.com."""
        ...

    @property
    def endpoint(self) -> ServedModels:
        """Your own model."""
        ...

    @property
    def policies(self) -> str:
        """``in_process``, or ``served`` as adapters by ``open_models``."""
        ...


def system_partitions(
    systems: Sequence[System], last: Container[str] = frozenset()
) -> dg.StaticPartitionsDefinition:
    """One partition a system: entries of ``systems.toml``, then by method; ``last`` at the end."""
    ordered = sorted(systems, key=lambda one: (one.key in last, one.entry is None))
    return dg.StaticPartitionsDefinition([one.key for one in ordered])


def unavailable(model: Places, verifier: str, system: System) -> str:
    """Why a system cannot run; empty where it may, also if its policy was not trained yet.

    ``verifier`` is the engine of the profile's verifier. What an entry names is seen at its run.
    """
    port = system.model.port
    if port == "verifier" and system.model.requested != verifier:
        return (
            f"system '{system.key}' needs the verifier {system.model.requested}; "
            f"this profile has {verifier}"
        )
    if port == "policy" and model.policies == "in_process":
        return ""
    places = {"openai": model.openai, "endpoint": model.endpoint}
    places |= dict.fromkeys(("open", "policy"), model.open_models)
    place = places.get(port)
    return "" if place is None else _lacking(place, system.model.requested, port)


def _lacking(place: ServedModels, requested: str, port: str) -> str:
    if not place.endpoints and not place.vllm:
        named = place.model or requested or "your own model"
        hint = f": set {_URLS[port]}" if port in _URLS else ""
        return f"no endpoint serves '{named}', and none is to be started{hint}"
    key = place.api_key
    known = key.get_value() if isinstance(key, dg.EnvVar) else key
    if place.key_variable and not known:
        return f"{place.key_variable} is not set; it must hold the endpoint's key"
    return ""
