"""The engines behind the systems of the evaluation, as a Dagster resource.

    rules       RuleChat over the profile's verifier
    open        an open model, at an endpoint or on a server that the run starts
    openai      a model of api.openai.com
    endpoint    your own endpoint
    verifier    the profile's verifier, on claims as they are
    policy      a trained adapter on its base, in this process or on the server of open models
    entry       what an entry of systems.toml names

One server runs at a time: the test sets of a run share it, and another model takes its place.
Opening a system loads no weights, starts no server and makes no call, except that the hub is asked
for the commit of a model to be loaded that is not locked yet; neither does a run whose claims are
all stored. A calibration in the data folder is applied where it fits model and prompt;
one that does not fit is an error.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
from pydantic import Field, PrivateAttr

from decomposerl.baselines.method import offering
from decomposerl.errors import ConfigError
from decomposerl.evaluation.checkpoint import CheckpointRule
from decomposerl.evaluation.entries import TRACE, VERIFIER, SystemEntry
from decomposerl.evaluation.scored_claims import BeyondContext
from decomposerl.evaluation.systems import System
from decomposerl.prompts.template import THREE_WAY, PromptSettings, VerdictRule, labels_of
from decomposerl.training.experiment import Experiment
from decomposerl.training.experiments import experiment
from resources.evaluation.chat_caller import ChatCaller
from resources.evaluation.context_guard import ROOMS, ContextGuard, Room, counter_of
from resources.evaluation.entry_engines import EntryEngines, Opened
from resources.evaluation.entry_verifiers import opened_verifier
from resources.evaluation.local_model import Batching, LocalModel
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.offered import unavailable
from resources.evaluation.opened_system import OpenedSystem
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.rule_systems import (
    answers_third,
    method_task,
    task_of,
    verifier_task,
)
from resources.evaluation.served_policy import ServedModels
from resources.evaluation.trained_policy import (
    PROMPT,
    REVISION,
    ChosenPolicy,
    chosen_policy,
    decoding_of,
    policy_procedure,
)
from resources.evaluation.verifier_caller import VerifierCaller
from resources.evaluation.weights import Weights, context_of, weights_digest
from resources.hub.locks import MAIN, ModelLocks, models_lock
from resources.store.parquet import DataFolder
from resources.store.prompts import load_policy_prompt
from resources.store.resource import StoredResource
from resources.tokens.word_tokens import CautiousTokens
from resources.training.run_inputs import base_of
from resources.training.run_store import RunFolder, recorded_in_config
from resources.verifier.resource import VerifierResource
from resources.vllm.adapters import PolicyAdapter
from resources.vllm.shared import SharedServer

if TYPE_CHECKING:
    from resources.chat.client import ChatClient


class NamedKey(dg.Config):
    """A key that an entry of ``systems.toml`` names, by its variable."""

    variable: str = Field(description="the variable that the entry names")
    value: str = Field(default="", repr=False, description="the key; give a dg.EnvVar")


class EvaluationModelResource(StoredResource):
    """The engines behind the systems of a profile, except its verifier, a separate resource."""

    open_models: ServedModels = Field(default=ServedModels(), description="open models")
    openai: ServedModels = Field(default=ServedModels(), description="api.openai.com")
    endpoint: ServedModels = Field(default=ServedModels(), description="your own endpoint")
    entries: ServedModels = Field(
        default=ServedModels(), description="what entries of systems.toml share: how one is started"
    )
    entry_keys: list[NamedKey] = Field(default=[], description="the keys that entries name")
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
        default="in_process", description="policies: here, or as adapters on open models' server"
    )
    device: str = Field(default="cpu", description="policies in process: torch's name")
    batch_size: int = Field(default=16, ge=1, description="policies in process: traces at once")
    likeliest: int = Field(
        default=5, ge=0, le=20, description="policies in process: top log-probabilities per token"
    )

    _server: SharedServer = PrivateAttr(default_factory=SharedServer)

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
        port = system.model.port
        if system.entry is not None:
            entry = system.entry
            if three_way and entry.method not in {TRACE, VERIFIER} and answers_third(system):
                entry = entry.model_copy(update={"verdict_rule": THREE_WAY})
            task, caller, details, guard = self._entry(system, entry, data, verifier, samples)
        elif port == "policy":
            task, caller, details, guard = self._policy(system, data, checkpoint, samples)
        elif port == "verifier":
            task, caller, details, guard = self._verifier(system, verifier)
        else:
            rule = THREE_WAY if three_way else self.verdict_rule
            rule = "evidence" if rule == THREE_WAY and not answers_third(system) else rule
            task, caller, details, guard = self._prompted(system, data, verifier, rule)
        return OpenedSystem(task, caller, data.path, details, guard)

    def _entry(
        self,
        system: System,
        entry: SystemEntry,
        data: DataFolder,
        verifier: VerifierResource,
        samples: int,
    ) -> Opened:
        engines = EntryEngines(
            place=self.entries,
            keys={one.variable: one.value for one in self.entry_keys},
            data=data.path,
            results=Path(self.results_dir),
            closers=self._closers,
            shared=self._server,
            rule=self.beyond_context,
            prompts_dir=self.prompts_dir,
            device=self.device,
            batch_size=self.batch_size,
            likeliest=self.likeliest,
            allow_own_prompt=verifier.allow_own_prompt,
        )
        if entry.method == VERIFIER:
            return opened_verifier(engines, system, entry)
        return engines.opened(system, entry, samples)

    def _prompted(
        self, system: System, data: DataFolder, verifier: VerifierResource, rule: VerdictRule
    ) -> Opened:
        task = method_task(system, self.seed, labels_of(rule))
        shown = None if self.demonstrations < 0 else self.demonstrations
        wording = PromptSettings(rule, shown)
        prompts = MethodPrompts(self.prompts_dir, settings=wording)
        if system.model.port == "rules":
            stored = verifier.open()
            return task, RuleChat(stored, prompts), stored.details, self._guard()
        served = {"open": self.open_models, "openai": self.openai, "endpoint": self.endpoint}
        place = served[system.model.port]
        model, locks = place.model or system.model.requested, ModelLocks(models_lock(data.path))
        revision = place.revision if place.endpoints else locks.cached(model, place.revision)
        room = ROOMS[task.protocol]
        room = replace(room, reply=room.reply + place.call_settings(self.seed).room)
        file = prompts.file(task.prompt)
        guard = self._guard(
            place.context_of(model, revision), model, revision, file=file, room=room
        )
        caller, chat = place.caller(
            system.model.requested,
            prompts,
            self.seed,
            results=Path(self.results_dir),
            closers=self._closers,
            shared=self._server,
            pin=locks.fetched,
        )
        return task, caller, chat.details, guard

    def _guard(
        self,
        context: int = 0,
        model: str = "",
        revision: str = "",
        **asked: Any,  # noqa: ANN401 - of a guard
    ) -> ContextGuard:
        """The rule for claims beyond ``context``; 0 where evidence is split, or not known."""
        counter = counter_of(model, revision) if context else CautiousTokens()
        return ContextGuard(self.beyond_context, context, counter=counter, **asked)

    def _verifier(self, system: System, verifier: VerifierResource) -> Opened:
        task, stored = verifier_task(system, self.seed), verifier.open()
        return task, VerifierCaller(stored), stored.details, self._guard()

    def _policy(
        self, system: System, data: DataFolder, checkpoint: CheckpointRule, samples: int
    ) -> Opened:
        recipe = experiment(system.model.key)
        chosen = chosen_policy(data, recipe.name, checkpoint)
        base = base_of(data, recipe)
        wording = PromptSettings(recipe.verdict_rule)
        policy_prompt = load_policy_prompt(base, self.prompts_dir, wording)
        prompts = MethodPrompts(given={PROMPT: policy_prompt})
        loaded = self._base_revision(data, RunFolder(chosen.folder), base)
        weights = Weights(base, str(chosen.adapter), loaded or MAIN, self.device, recipe.lora.dtype)
        procedure = offering(
            labels_of(recipe.verdict_rule), policy_procedure(decoding_of(recipe, samples))
        )
        task = task_of(
            *(system, procedure, PROMPT, self.seed),
            settings=json.dumps([asdict(decoding_of(recipe)), weights.name], sort_keys=True),
            samples=samples,
            revision=REVISION,
        )
        served = self.policies == "served"
        read = self.open_models.context_of if served else context_of
        guard = self._guard(
            read(base, weights.revision),
            base,
            weights.revision,
            file=policy_prompt,
            room=Room(decoding_of(recipe).max_tokens),
            view=recipe.evidence_view,
        )
        if served:
            caller, chat = self._served_policy(recipe, chosen, prompts, weights, loaded)
            return task, caller, chat.details, guard
        batching = Batching(size=self.batch_size, top_logprobs=self.likeliest, seed=self.seed)
        return task, LocalModel(weights, prompts, batching), dict, guard

    def _served_policy(
        self,
        recipe: Experiment,
        chosen: ChosenPolicy,
        prompts: MethodPrompts,
        weights: Weights,
        loaded: str,
    ) -> tuple[ChatCaller, "ChatClient"]:
        """A caller of the adapter on its base, at the endpoint or on the server of the run."""
        name, folder = f"{recipe.name}-{chosen.selected.step}", chosen.adapter.resolve()
        return self.open_models.caller(
            weights.base,
            prompts,
            self.seed,
            results=Path(self.results_dir),
            closers=self._closers,
            shared=self._server,
            adapter=PolicyAdapter(name, folder, weights.base, weights_digest(folder)),
            pin=lambda *_: loaded,
        )

    def _base_revision(self, data: DataFolder, run: RunFolder, base: str) -> str:
        """The commit of a hub's base: the one it was trained on, else the locked one.

        At an endpoint it is what the settings say.
        """
        named = self.open_models.revision
        if self.policies == "served" and self.open_models.endpoints:
            return named
        return recorded_in_config(run, "revision") or ModelLocks(models_lock(data.path)).fetched(
            base, named
        )
