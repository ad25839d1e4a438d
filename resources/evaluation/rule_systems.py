"""The systems that need no model: rules, and the verifier of the profile.

``opened_without_model`` opens one of these without Dagster, with the results of a run: the same
engine, prompt hash and stores as ``EvaluationModelResource`` gives it.
"""

from pathlib import Path

from decomposerl.evaluation.systems import System
from resources.evaluation.generation import OpenedSystem, opened_by_rules
from resources.evaluation.runner import MethodPrompts
from resources.store.result_store import ResultStores
from resources.store.stored_ports import StoredVerifier
from resources.verifier.lexical import LexicalVerifier

LEXICAL = "embedded"
"""What a profile calls the lexical verifier."""


def needs_no_model(system: System, verifier: str) -> bool:
    """Whether rules and the lexical verifier answer, in a profile with this ``verifier``."""
    port = system.model.port
    return verifier == LEXICAL and (
        port == "rules" or (port == "verifier" and system.model.requested == LEXICAL)
    )


def opened_without_model(
    system: System, data: Path, results: Path, prompts_dir: str = ""
) -> OpenedSystem:
    """A system for which ``needs_no_model`` holds; ``results`` is the folder of stored results."""
    verifier = StoredVerifier(LexicalVerifier(), ResultStores(results))
    return opened_by_rules(system, data, verifier, MethodPrompts(prompts_dir))
