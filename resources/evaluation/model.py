"""The systems of the evaluation and their engines, as a Dagster resource.

    rules       RuleChat over the profile's verifier
    open        an open model, at an endpoint or on a server that the run starts
    openai      a model of api.openai.com
    endpoint    your own endpoint
    verifier    the profile's verifier, on claims as they are
    policy      a trained adapter on its base, in this process or at the endpoint of open models
    entry       what an entry of systems.toml names

Every system with a model of its own is opened as an entry; those of the catalogue and policies are
entries at an endpoint of the profile. One server runs at a time: the test sets of a run share it,
and another model takes its place. Opening a system loads no weights, starts no server and makes no
call, except that the hub is asked for the commit of a model to be loaded that is not locked yet;
neither does a run whose claims are all stored. A calibration in the data folder is applied where it
fits model and prompt; one that does not fit is an error.
"""

import json
from dataclasses import asdict, replace
from typing import Any, Literal

from pydantic import Field

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    offering,
)
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import TRACE, VERIFIER, SystemEntry
from decomposerl.evaluation.scored_claims import BeyondContext
from decomposerl.evaluation.systems import System
from decomposerl.prompts.template import THREE_WAY, PromptSettings, VerdictRule, labels_of
from decomposerl.training.experiments import experiment
from resources.chat.endpoint import EndpointConfig, key_of
from resources.evaluation.caller import MethodCaller, VerifierCaller, scored_above
from resources.evaluation.chat_caller import MethodPrompts
from resources.evaluation.engine import EnginesResource, EntryEngine
from resources.evaluation.generation import (
    ROOMS,
    ContextGuard,
    Details,
    OpenedSystem,
    Room,
    Task,
    answers_third,
    method_task,
    rule_of,
    task_of,
    verifier_task,
)
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.trained_policy import (
    PROMPT,
    REVISION,
    CheckpointRule,
    PolicyDecoding,
    chosen_policy,
    decoding_of,
    policy_procedure,
)
from resources.hub.locks import ModelLocks, models_lock
from resources.store.parquet import DataFolder
from resources.store.prompts import load_policy_prompt
from resources.training.run_inputs import base_of
from resources.training.run_store import RunFolder, recorded_in_config
from resources.verifier.resource import VerifierResource

_URLS = {
    "open": "DECOMPOSERL_EVALUATION__BASE_URL",
    "policy": "DECOMPOSERL_EVALUATION__BASE_URL",
    "endpoint": "DECOMPOSERL_ENDPOINT__BASE_URL",
}
_CONTEXT = "DECOMPOSERL_EVALUATION__CONTEXT={} (the field context)"
Opened = tuple[Task, MethodCaller, Details, ContextGuard]


class EvaluationModelResource(EnginesResource):
    """The systems of a profile; its verifier is a separate resource.

    An endpoint without model and URL is none; ``open_models`` with ``runs="server"`` is started.
    """

    open_models: EndpointConfig = Field(
        default=EndpointConfig(), description="open models; no model: as the system names it"
    )
    openai: EndpointConfig = Field(default=EndpointConfig(), description="api.openai.com")
    endpoint: EndpointConfig = Field(default=EndpointConfig(), description="your own endpoint")
    prompts_dir: str = Field(default="", description="folder of your own prompt files")
    verdict_rule: VerdictRule = Field(
        default="evidence",
        description="baselines: Refuted also where the evidence is silent, or as in the paper; "
        "three_way offers a third verdict",
    )
    demonstrations: int = Field(
        default=-1, ge=-1, description="baselines: worked examples in each prompt; -1: all"
    )
    beyond_context: BeyondContext = Field(
        default="best_sentences",
        description="rows longer than the model's context: read in part, wrong, or dropped",
    )
    seed: int = Field(default=42, description="of sampling")
    policies: Literal["in_process", "served"] = Field(
        default="in_process", description="policies: here, or as adapters where open models run"
    )

    def opened(
        self,
        system: System,
        data: DataFolder,
        verifier: VerifierResource,
        checkpoint: CheckpointRule = "final",
        samples: int = 0,
        *,
        three_way: bool = False,
    ) -> OpenedSystem:
        """The system, ready to predict; ``checkpoint`` and ``samples`` are for policies.

        ``three_way``: for claims of three labels. Baselines whose model may end with the third
        verdict are prompted for it; a policy keeps its recipe's rule, an entry its own.

        Raises:
            ConfigError: the profile has no engine for it, or its policy was not trained.
        """
        if why := unavailable(self, verifier.engine, system):
            raise ConfigError(why)
        if system.model.port == "verifier":
            opened = self._profile_verifier(system, verifier)
        elif system.model.port == "rules":
            opened = self._rules(system, verifier, three_way=three_way)
        else:
            entry = self._as_entry(system, data, checkpoint, three_way=three_way)
            opened = self._entry(system, entry, data, verifier, samples)
        task, caller, details, guard = opened
        return OpenedSystem(task, caller, data.path, details, guard)

    def _profile_verifier(self, system: System, verifier: VerifierResource) -> Opened:
        task, stored = verifier_task(system, self.seed), verifier.open()
        return task, VerifierCaller(stored), stored.details, ContextGuard(self.beyond_context)

    def _rules(self, system: System, verifier: VerifierResource, *, three_way: bool) -> Opened:
        entry = self._catalogue_entry(system, Endpoint(), three_way=three_way)
        prompts, stored = self._prompts(entry), verifier.open()
        task = method_task(system, self.seed, labels_of(entry.verdict_rule))
        guard = ContextGuard(self.beyond_context)
        return task, RuleChat(stored, prompts), stored.details, guard

    def _entry(
        self,
        system: System,
        entry: SystemEntry,
        data: DataFolder,
        verifier: VerifierResource,
        samples: int,
    ) -> Opened:
        """A system whose model is its own: an entry of the file, of the catalogue or a policy."""
        port, own = system.model.port, system.entry is not None
        setting = f"context = {{}} in [{entry.name}] of systems.toml" if own else _CONTEXT
        engine = EntryEngine(
            entry,
            self,
            ModelLocks(models_lock(data.path)),
            identity=entry.identity if own else entry.revision,
            continues=port in {"open", "policy"} and not entry.at_openai,
            context_setting=setting,
            whole_context=port != "endpoint",  # a person's server may read less than its model
        )
        if entry.method == VERIFIER:
            procedure = scored_above(entry.threshold)
            task = task_of(system, procedure, VERIFIER, entry.seed, decomposes=False)
            allow_own = verifier.allow_own_prompt
            caller, details = engine.verifier(self.prompts_dir, allow_own=allow_own)
            return task, caller, details, ContextGuard(self.beyond_context)
        if entry.method == TRACE:
            return self._trace(system, engine, samples)
        return self._baseline(system, engine)

    def _baseline(self, system: System, engine: EntryEngine) -> Opened:
        entry = engine.entry
        task = method_task(system, entry.seed, labels_of(entry.verdict_rule))
        settings = {name: value for name, value in entry.overrides.items() if value is not None}
        if settings:
            written = json.dumps(settings, sort_keys=True)
            task = replace(task, procedure=resampled(task.procedure, entry), settings=written)
        prompts = self._prompts(entry)
        room = ROOMS[task.protocol]
        room = replace(room, reply=entry.max_tokens or room.reply)
        caller, details = engine.caller(prompts)
        guard = engine.guard(self.beyond_context, prompts.file(task.prompt), room)
        return task, caller, details, guard

    def _trace(self, system: System, engine: EntryEngine, samples: int) -> Opened:
        """A policy, or an entry that answers as one; no adapter is needed."""
        entry = engine.entry
        decoding = PolicyDecoding(samples=samples)
        if entry.recipe:
            decoding = decoding_of(experiment(entry.recipe), samples)
        decoding = replace(decoding, max_tokens=entry.max_tokens or decoding.max_tokens)
        rule = rule_of(entry)
        prompts_dir = entry.prompts or self.prompts_dir
        file = load_policy_prompt(entry.model, prompts_dir, PromptSettings(rule))
        caller, details = engine.caller(MethodPrompts(given={PROMPT: file}))
        # A policy's own name says which weights answer; its engine's name is of the recipe's step.
        decides = entry.overrides if system.entry is not None else engine.weights.name
        task = task_of(
            system,
            offering(labels_of(rule), resampled(policy_procedure(decoding), entry)),
            PROMPT,
            entry.seed,
            settings=json.dumps([asdict(replace(decoding, samples=0)), decides], sort_keys=True),
            samples=samples,
            revision=REVISION,
        )
        room = Room(decoding.max_tokens)
        return task, caller, details, engine.guard(self.beyond_context, file, room, decoding.view)

    def _as_entry(
        self, system: System, data: DataFolder, checkpoint: CheckpointRule, *, three_way: bool
    ) -> SystemEntry:
        entry = system.entry
        if entry is None and system.model.port == "policy":
            return self._policy_entry(system, data, checkpoint)
        if entry is None:
            place = places(self)[system.model.port]
            return self._catalogue_entry(system, place, three_way=three_way)
        if three_way and entry.method not in {TRACE, VERIFIER} and answers_third(system):
            return entry.model_copy(update={"verdict_rule": THREE_WAY})
        return entry

    def _catalogue_entry(self, system: System, place: Endpoint, *, three_way: bool) -> SystemEntry:
        rule = THREE_WAY if three_way else self.verdict_rule
        return self._entry_at(
            place,
            name=system.key,
            method=system.method,
            protocol=system.protocol,
            model=place.model or system.model.requested,
            verdict_rule="evidence" if rule == THREE_WAY and not answers_third(system) else rule,
            demonstrations=None if self.demonstrations < 0 else self.demonstrations,
        )

    def _policy_entry(
        self, system: System, data: DataFolder, checkpoint: CheckpointRule
    ) -> SystemEntry:
        """The adapter of a recipe on its base.

        The commit of a hub's base is the one it was trained on, else the locked one; at an endpoint
        it is what the settings say.
        """
        recipe = experiment(system.model.key)
        chosen, base = chosen_policy(data, recipe.name, checkpoint), base_of(data, recipe)
        served = self.policies == "served"
        place: Endpoint = self.open_models if served else Endpoint(runs="in_process")
        revision = self.open_models.revision
        if place.place != "endpoint":
            recorded = recorded_in_config(RunFolder(chosen.folder), "revision")
            revision = recorded or ModelLocks(models_lock(data.path)).fetched(base, revision)
        return self._entry_at(
            place,
            name=f"{recipe.name}-{chosen.selected.step}",
            method=TRACE,
            model=base,
            revision=revision,
            adapter=str(chosen.adapter.resolve()),
            recipe=recipe.name,
            dtype=recipe.lora.dtype,
            verdict_rule=recipe.verdict_rule,
            thinking_style=place.thinking_style or "none",
        )

    def _entry_at(self, place: Endpoint, **fields: Any) -> SystemEntry:  # noqa: ANN401 - of an entry
        """An entry at a place of the profile, whose values were checked as that place's."""
        of_place = {name: getattr(place, name) for name in Endpoint.model_fields}
        of_place |= {name: tuple(of_place[name]) for name in ("base_url", "served_as")}
        return SystemEntry.model_construct(**{**of_place, "seed": self.seed, **fields})

    def _prompts(self, entry: SystemEntry) -> MethodPrompts:
        wording = PromptSettings(entry.verdict_rule, entry.demonstrations)
        return MethodPrompts(entry.prompts or self.prompts_dir, settings=wording)


def places(model: EvaluationModelResource) -> dict[str, EndpointConfig]:
    """The endpoints of a profile by the port of a system."""
    return {
        "open": model.open_models,
        "policy": model.open_models,
        "openai": model.openai,
        "endpoint": model.endpoint,
    }


def unavailable(model: EvaluationModelResource, verifier: str, system: System) -> str:
    """Why a system cannot run; empty where it may, also if its policy was not trained yet.

    ``verifier`` is the engine of the profile's verifier. What an entry names is seen at its run.
    """
    port, requested = system.model.port, system.model.requested
    if port == "verifier" and requested != verifier:
        return f"system '{system.key}' needs the verifier {requested}; this profile has {verifier}"
    place = places(model).get(port)
    if place is None or (port == "policy" and model.policies == "in_process"):
        return ""
    named = place.model or requested or "your own model"
    if not (place.base_url or place.runs or place.model):
        hint = f": set {_URLS[port]}" if port in _URLS else ""
        return f"no endpoint serves '{named}', and none is to be started{hint}"
    if place.place == "server" and not model.server.vllm:
        return f"no command starts a server of '{named}'"
    try:
        key_of(place)
    except ConfigError as error:
        return str(error)
    return ""


def resampled(procedure: Procedure, entry: SystemEntry) -> Procedure:
    """The procedure with the entry's temperature and token limit in its calls.

    Further samples of a call keep their own temperature.
    """
    if all(value is None for value in entry.overrides.values()):
        return procedure

    def changed(call: ModelCall) -> ModelCall:
        warm = entry.temperature
        if warm is None or call.sample:
            warm = call.temperature
        return replace(call, temperature=warm, max_tokens=entry.max_tokens or call.max_tokens)

    def steps(given: ClaimInput) -> Steps:
        inner = procedure(given)
        calls = next(inner)
        while True:
            try:
                calls = inner.send((yield tuple(changed(call) for call in calls)))
            except StopIteration as end:
                ended: Verification = end.value
                return ended

    return steps
