"""Checks of the servers that a run will ask: do they answer, with which model and version.

Each function gives a ``ReadinessCheck``, with a fix where something is missing. A check asks for
lists and versions only, within three seconds. A key is sent only to its endpoint and is never part
of a finding.
"""

import json

from packaging.specifiers import SpecifierSet
from pydantic import SecretStr

from decomposerl.errors import EngineError
from decomposerl.extras import install_command
from decomposerl.reports.readiness import ReadinessCheck, State
from resources.chat.connection import fetched
from resources.vllm.process import MINIMUM, server_version_problem

_LISTED = 5
VLLM_RANGE = SpecifierSet(f">={MINIMUM},<=0.31")
"""From the first without CVE-2026-27893 and CVE-2026-22807 to the last that TRL accepts."""
_VLLM_WHY = f"CVE-2026-27893 and CVE-2026-22807 below {MINIMUM}, TRL accepts none above 0.31"
_MALFORMED = (ValueError, KeyError, TypeError, IndexError, RecursionError)


def endpoint(
    url: str, model: str, value: SecretStr, fix: str, *, required: bool = True
) -> ReadinessCheck:
    """Whether ``<url>/models`` answers within three seconds and lists ``model`` (empty: any)."""
    what = f"{url} for {model}" if model else url
    absent: State = "missing" if required else "note"
    try:
        models = json.loads(fetched(f"{url}/models", value.get_secret_value()))["data"]
        served = [str(one["id"]) for one in models]
        problem = server_version_problem(url.removesuffix("/v1"), models, value.get_secret_value())
    except EngineError as error:
        problem = str(error)
    except _MALFORMED:
        problem = "answered with no list of models"
    else:
        listed = ", ".join(served[:_LISTED]) or "nothing"
        if problem:
            return ReadinessCheck("endpoint", what, absent, problem, fix)
        if not model:
            return ReadinessCheck("endpoint", what, "ok", f"answers and serves {listed}")
        if model in served:
            return ReadinessCheck("endpoint", what, "ok", "answers and lists the model")
        problem = f"serves {listed}, not the model"
    return ReadinessCheck("endpoint", what, absent, problem, fix)


def served_context(url: str, model: str, value: SecretStr) -> int | None:
    """``max_model_len`` in tokens, as vLLM lists it; None where the endpoint does not say."""
    try:
        answer = json.loads(fetched(f"{url}/models", value.get_secret_value()))
        lengths = [one.get("max_model_len") for one in answer["data"] if one["id"] == model]
    except (EngineError, AttributeError, *_MALFORMED):
        return None
    known = [length for length in lengths if isinstance(length, int) and length > 0]
    return min(known, default=None)


def sampler(url: str, model: str, tokens: int, fix: str) -> ReadinessCheck:
    """Whether the vLLM server at ``url`` (without ``/v1``) can sample a policy for TRL.

    It must be healthy, in ``VLLM_RANGE``, and open the endpoints that replace weights. The first
    model that it lists, which TRL asks, must be ``model`` (empty: any) and read ``tokens``.
    """
    what = f"{url} for {model}" if model else url
    try:
        problem = _sampler_problem(url, model, tokens)
    except EngineError as error:
        problem = str(error)
    except _MALFORMED:
        problem = "does not answer as vLLM does"
    if problem:
        return ReadinessCheck("sampler", what, "missing", problem, fix)
    return ReadinessCheck("sampler", what, "ok", "healthy, and serves the model")


def _sampler_problem(url: str, model: str, tokens: int) -> str:
    fetched(f"{url}/health")
    found = vllm_check(str(json.loads(fetched(f"{url}/version"))["version"]))
    if found.state != "ok":
        return f"vLLM {found.said}"
    card = json.loads(fetched(f"{url}/v1/models"))["data"][0]
    if model and model not in {card["id"], card.get("root")}:
        return f"serves {card['id']}, not the model"
    limit = card.get("max_model_len") or tokens
    if limit < tokens:
        return f"reads {limit:,} tokens; prompt and completion may have {tokens:,}"
    try:
        fetched(f"{url}/get_world_size")
    except EngineError:
        return "cannot receive weights: it was started without VLLM_SERVER_DEV_MODE=1"
    return ""


def vllm_check(installed: str | None) -> ReadinessCheck:
    """Whether this version of vLLM, None for none, may sample a policy."""
    fix = install_command("vllm")
    if installed is None:
        return ReadinessCheck("package", "vllm", "missing", "not installed", fix)
    if installed in VLLM_RANGE:
        return ReadinessCheck("package", "vllm", "ok", installed)
    return ReadinessCheck("package", "vllm", "missing", f"{installed} is refused: {_VLLM_WHY}", fix)
