"""The systems that need no model, rules and the lexical verifier, opened without Dagster."""

from pathlib import Path

from decomposerl.evaluation.systems import System
from resources.evaluation.generation import OpenedSystem, opened_by_rules
from resources.evaluation.runner import MethodPrompts
from resources.store.result_store import ResultStores
from resources.store.stored_ports import StoredVerifier
from resources.verifier.lexical import LexicalVerifier

LEXICAL = "embedded"  # what a profile calls the lexical verifier


def opened_without_model(
    system: System, verifier: str, data: Path, results: Path, prompts_dir: str = ""
) -> OpenedSystem | None:
    """The system, if rules or the lexical verifier answer in a profile with this ``verifier``.

    ``results`` is the folder of stored results, which are those of a run: engine, prompt hash and
    stores are the same as ``EvaluationModelResource`` gives it.
    """
    is_verifier = (system.model.port, system.model.requested) == ("verifier", LEXICAL)
    if verifier != LEXICAL or not (is_verifier or system.model.port == "rules"):
        return None
    stored = StoredVerifier(LexicalVerifier(), ResultStores(results))
    return opened_by_rules(system, data, stored, MethodPrompts(prompts_dir))
