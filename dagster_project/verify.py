"""Verdicts on claims that belong to no test set, with any system: ``verify`` and the Python API.

It needs no run, no label and no benchmark file; results are stored in the data folder, so a claim
is answered once by one system. Systems of rules are opened without Dagster.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from dagster_project.environment import systems_for
from dagster_project.found_evidence import FoundRecord
from dagster_project.settings import Settings
from dagster_project.training_estimate import default_recipe
from decomposerl.baselines.method import ClaimInput, Verification
from decomposerl.endpoint import is_path
from decomposerl.errors import ConfigError, EvaluationError, SourceFileError
from decomposerl.evaluation.systems import System, system_named
from decomposerl.reports.verified import VerifiedClaim, Verifying
from decomposerl.traces.records import ClaimRecord, claim_record
from decomposerl.training.experiment import TINY_BASES
from decomposerl.training.experiments import experiment
from resources.evaluation.generation import OpenedSystem
from resources.evaluation.rule_systems import opened_without_model
from resources.evaluation.runner import Prediction

EMBEDDED_SYSTEM = "self_ask-rules-faithful"
"""The default of the embedded profile; it works after any installation."""
_UNASKED = Prediction("", Verification(None, "unparsed", ""), None, ())


@dataclass(frozen=True, slots=True)
class ClaimVerifier:
    """A system that is open, and what all of its results have in common."""

    opened: OpenedSystem
    about: Verifying

    def verify(self, records: Sequence[ClaimRecord]) -> Iterator[VerifiedClaim]:
        """The result of each claim, in their order, as soon as it is there.

        A claim without evidence gets no call and no verdict.

        Raises:
            EngineError: no claim can be answered.
        """
        asked = [one for one in records if one.evidence]
        distinct = {one.key: ClaimInput(one.claim, one.evidence, one.passages) for one in asked}
        waiting, done = deque(records), {one.key: _UNASKED for one in records if not one.evidence}
        results = self.opened.results(distinct)
        for one in chain([_UNASKED], results):  # first those before the first with evidence
            done[one.claim_id] = one
            while waiting and waiting[0].key in done:
                record = waiting.popleft()
                yield self._verified(record, done[record.key])

    def _verified(self, record: ClaimRecord, one: Prediction) -> VerifiedClaim:
        result = self.about.verified(
            record.claim, record.evidence, one.verification, one.confidence, record.claim_id
        )
        result = replace(result, warnings=(*record.notes, *result.warnings))
        return record.placed(result) if isinstance(record, FoundRecord) else result


@contextmanager
def claim_verifier(settings: Settings, system: str = "") -> Iterator[ClaimVerifier]:
    """Open a system; what it starts ends with the block.

    The default is that of the profile: rules if embedded, else its trained policy.
    A calibration of another model or prompt is not used, and its claims have a warning.

    Raises:
        ConfigError: there is no such system, the profile has no engine for it, or its policy was
            not trained.
    """
    policy = f"decomposerl-{default_recipe(settings).name}"
    default = EMBEDDED_SYSTEM if settings.profile == "embedded" else policy
    chosen = system_named(system or default, systems_for(settings))
    with ExitStack() as open_engines:
        opened = _opened(settings, chosen, open_engines)
        warnings, calibration = _weakness(chosen), None
        try:
            calibration = opened.calibration()
        except EvaluationError as error:
            warnings = (*warnings, f"not calibrated: {error}")
        prompt_hash = opened.prompt_hash
        about = Verifying(chosen.key, opened.engine, prompt_hash, calibration, warnings)
        yield ClaimVerifier(opened, about)


def _opened(settings: Settings, system: System, open_engines: ExitStack) -> OpenedSystem:
    paths, engine = settings.paths, settings.verifier.engine
    rules = opened_without_model(system, engine, paths.data, paths.results, paths.prompts)
    if rules is not None:
        return rules
    from dagster_project.engine_resources import open_resources

    resources = open_resources(settings, "evaluation_model", "data_folder", "verifier")
    model, data, verifier = open_engines.enter_context(resources)
    try:
        opened: OpenedSystem = model.opened(system, data, verifier)
    except ConfigError as error:
        said = f"{error}. Another system: --system, such as {EMBEDDED_SYSTEM}"
        raise ConfigError(said) from error
    return opened


def _weakness(system: System) -> tuple[str, ...]:
    """What a user should know of a system that answers, but not well."""
    port, entry, made_of = system.model.port, system.entry, ""
    if port == "rules" or (port == "verifier" and system.model.key == "lexical"):
        made_of = "rules on words, no language model"
    elif (port == "policy" and experiment(system.model.key).on_tiny_base) or (
        entry is not None and is_path(entry.model) and Path(entry.model).name in TINY_BASES
    ):
        made_of = "0.4 million parameters, trained on an invented world"
    return (f"{system.key} is tiny: {made_of}. It is often wrong",) * bool(made_of)


def checked_record(values: dict[str, object], file: str, *, evidence: bool = True) -> ClaimRecord:
    """The claim of values that stand in no line of a file.

    Raises:
        SourceFileError: a field cannot be read; names it.
    """
    record, problems = claim_record(values, file, 0, evidence=evidence)
    if record is None:
        raise SourceFileError(f"{file}, field '{problems[0].field}': {problems[0].reason}")
    return record
