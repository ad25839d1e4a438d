"""Tasks of systems, and the systems that need no model: rules, and the lexical verifier.

``opened_without_model`` opens one of these without Dagster, with the results of a run: the same
engine, prompt hash and stores as ``EvaluationModelResource`` gives it.
"""

from pathlib import Path
from typing import Any

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import Method, Procedure, Protocol, offering
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import TRACE, VERIFIER, SystemEntry
from decomposerl.evaluation.systems import System
from decomposerl.prompts.template import THREE_WAY, VerdictRule
from decomposerl.schemas import LABELS, Verdict
from decomposerl.training.experiments import experiment
from resources.evaluation.caller import MethodCaller
from resources.evaluation.generation import OpenedSystem, Task
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.verifier_caller import VerifierCaller, scored
from resources.store.result_store import ResultStores
from resources.verifier.lexical import LexicalVerifier
from resources.verifier.stored import StoredVerifier

LEXICAL = "embedded"
"""What a profile calls the lexical verifier."""
_SEED = 42


def task_of(
    system: System,
    procedure: Procedure,
    prompt: str,
    seed: int,
    **fields: Any,  # noqa: ANN401 - of a task
) -> Task:
    """A task under the names of ``system``; ``fields`` are further ones of ``Task``."""
    names = (system.key, system.method, system.model.key, system.protocol)
    return Task(*names, procedure, prompt, seed=seed, **fields)


def method_task(system: System, seed: int = _SEED, labels: tuple[Verdict, ...] = LABELS) -> Task:
    """The task of a method with a chat model, whose prompts offer ``labels``.

    Raises:
        ConfigError: there is no such method, or it has no such protocol.
    """
    method = _method(system)
    return task_of(
        system,
        offering(labels, method.procedures[_protocol(system, method)]),
        method.prompt,
        seed,
        decomposes=method.decomposes,
        revision=method.revision,
    )


def answers_third(system: System) -> bool:
    """Whether a system may end with the third verdict where it is asked for it."""
    entry, port = system.entry, system.model.port
    if entry is not None and entry.method in {TRACE, VERIFIER}:
        return rule_of(entry) == THREE_WAY
    if port == "policy":
        return experiment(system.model.key).verdict_rule == THREE_WAY
    return port != "verifier" and _method(system).three_way


def rule_of(entry: SystemEntry) -> VerdictRule:
    """The entry's verdict rule, else its recipe's."""
    given = "verdict_rule" in entry.model_fields_set or not entry.recipe
    return entry.verdict_rule if given else experiment(entry.recipe).verdict_rule


def verifier_task(system: System, seed: int = _SEED) -> Task:
    """The task of a method whose verdicts are a verifier's."""
    revision = _method(system).revision
    return task_of(system, scored, system.method, seed, decomposes=False, revision=revision)


def needs_no_model(system: System, verifier: str) -> bool:
    """Whether rules and the lexical verifier answer, in a profile with this ``verifier``."""
    port = system.model.port
    return verifier == LEXICAL and (
        port == "rules" or (port == "verifier" and system.model.requested == LEXICAL)
    )


def opened_without_model(
    system: System, data: Path, results: Path, prompts_dir: str = ""
) -> OpenedSystem:
    """A system for which ``needs_no_model`` holds; ``results`` is the folder of stored results.

    Raises:
        ConfigError: as ``method_task``.
    """
    verifier = StoredVerifier(LexicalVerifier(), ResultStores(results))
    if system.model.port == "verifier":
        task, caller = verifier_task(system), VerifierCaller(verifier)
        return OpenedSystem(task, caller, data, verifier.details)
    chat: MethodCaller = RuleChat(verifier, MethodPrompts(prompts_dir))
    return OpenedSystem(method_task(system), chat, data, verifier.details)


def _method(system: System) -> Method:
    for method in ENTRY_METHODS:
        if method.name == system.method:
            return method
    raise ConfigError(f"there is no method '{system.method}' for system '{system.key}'")


def _protocol(system: System, method: Method) -> Protocol:
    for protocol in method.procedures:
        if protocol == system.protocol:
            return protocol
    raise ConfigError(f"{method.title} has no protocol '{system.protocol}'")
