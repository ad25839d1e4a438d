"""The systems that need no model, rules and the lexical verifier, opened without Dagster."""

from pathlib import Path

from decomposerl.evaluation.systems import System
from resources.evaluation.generation import OpenedSystem, opened_method
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.runner import MethodPrompts, VerifierCaller
from resources.store.result_store import ResultStores
from resources.store.stored_ports import StoredVerifier
from resources.verifier.lexical import LexicalVerifier

LEXICAL = "embedded"  # what a profile calls the lexical verifier


def opened_without_model(
    system: System, verifier: str, data: Path, results: Path, prompts_dir: str = ""
) -> OpenedSystem | None:
    """The system as ``EvaluationModelResource`` opens it; None where another verifier answers."""
    asked, by_rules = system.model, system.model.port == "rules"
    is_verifier = (asked.port, asked.requested) == ("verifier", LEXICAL)
    if verifier != LEXICAL or not (is_verifier or by_rules):
        return None
    stored = StoredVerifier(LexicalVerifier(), ResultStores(results))
    caller = RuleChat(stored, MethodPrompts(prompts_dir)) if by_rules else VerifierCaller(stored)
    return opened_method(system, caller, data)
