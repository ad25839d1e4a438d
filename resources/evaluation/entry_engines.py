"""The engines behind entries of ``systems.toml``: baselines and traces.

They run at an endpoint, on a server that the run starts, or in this process. Two entries never
share replies unless model and ``revision`` are the same: without a revision the address of the
endpoint is recorded in its place.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    offering,
)
from decomposerl.endpoint import is_path
from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.evaluation.entries import TRACE, SystemEntry
from decomposerl.evaluation.scored_claims import BeyondContext
from decomposerl.evaluation.systems import System
from decomposerl.prompts.template import PromptSettings, labels_of
from decomposerl.training.experiments import experiment
from resources.chat.settings import thinking_style_of
from resources.evaluation.caller import MethodCaller
from resources.evaluation.context_guard import ROOMS, ContextGuard, Room, counter_of
from resources.evaluation.generation import Task
from resources.evaluation.local_model import Batching, LocalModel
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.opened_system import Details
from resources.evaluation.rule_systems import method_task, rule_of, task_of
from resources.evaluation.served_policy import Closers, ServedModels
from resources.evaluation.trained_policy import (
    PROMPT,
    REVISION,
    PolicyDecoding,
    decoding_of,
    policy_procedure,
)
from resources.evaluation.weights import Weights, context_of, weights_digest
from resources.hub.access import cached_model
from resources.hub.locks import MAIN, ModelLocks, models_lock
from resources.store.prompts import load_policy_prompt
from resources.tokens.word_tokens import CautiousTokens
from resources.vllm.adapters import PolicyAdapter
from resources.vllm.shared import SharedServer

ADAPTER_FILE = "adapter_model.safetensors"
Opened = tuple[Task, MethodCaller, Details, ContextGuard]


@dataclass(frozen=True, slots=True)
class EntryEngines:
    """What entries share: the profile's settings, its keys and where results are stored.

    ``place`` has the command of a server that is started; ``keys`` are values by the names of
    their variables.
    """

    place: ServedModels
    keys: Mapping[str, str]
    data: Path
    results: Path
    closers: Closers
    shared: SharedServer
    rule: BeyondContext = "best_sentences"
    prompts_dir: str = ""
    device: str = "cpu"
    batch_size: int = 16
    likeliest: int = 5
    allow_own_prompt: bool = False

    def opened(self, system: System, entry: SystemEntry, samples: int = 0) -> Opened:
        """The entry's task and caller; ``samples`` are for traces.

        Raises:
            ConfigError: a folder of its is missing, or no command starts its server.
            EngineMissing: its adapter is on the hub, and not on this machine.
        """
        refuse_missing_folder(entry)
        if entry.method == TRACE:
            return self._trace(system, entry, samples)
        return self._method(system, entry)

    def _method(self, system: System, entry: SystemEntry) -> Opened:
        task = method_task(system, entry.seed, labels_of(entry.verdict_rule))
        settings = {name: value for name, value in _overrides(entry).items() if value is not None}
        if settings:
            written = json.dumps(settings, sort_keys=True)
            task = replace(task, procedure=resampled(task.procedure, entry), settings=written)
        wording = PromptSettings(entry.verdict_rule, entry.demonstrations)
        prompts = MethodPrompts(entry.prompts or self.prompts_dir, settings=wording)
        room = ROOMS[task.protocol]
        room = replace(room, reply=entry.max_tokens or room.reply)
        guard = self._guard(entry, file=prompts.file(task.prompt), room=room)
        caller, details = self._caller(entry, prompts)
        return task, caller, details, guard

    def _trace(self, system: System, entry: SystemEntry, samples: int) -> Opened:
        decoding = PolicyDecoding(samples=samples)
        if entry.recipe:
            decoding = decoding_of(experiment(entry.recipe), samples)
        decoding = replace(decoding, max_tokens=entry.max_tokens or decoding.max_tokens)
        prompts_dir, rule = entry.prompts or self.prompts_dir, rule_of(entry)
        wording = PromptSettings(rule)
        file = load_policy_prompt(entry.model, prompts_dir, wording)
        caller, details = self._caller(entry, MethodPrompts(given={PROMPT: file}))
        procedure = resampled(policy_procedure(decoding), entry)
        settings = [asdict(replace(decoding, samples=0)), _overrides(entry)]
        task = task_of(
            *(system, offering(labels_of(rule), procedure), PROMPT, entry.seed),
            settings=json.dumps(settings, sort_keys=True),
            samples=samples,
            revision=REVISION,
        )
        room = Room(decoding.max_tokens)
        return task, caller, details, self._guard(entry, file=file, room=room, view=decoding.view)

    def _caller(self, entry: SystemEntry, prompts: MethodPrompts) -> tuple[MethodCaller, Details]:
        if entry.place == "in_process":
            batching = Batching(self.batch_size, top_logprobs=self.likeliest, seed=entry.seed)
            return LocalModel(self._weights(entry), prompts, batching), dict
        caller, chat = self.served(entry).caller(
            *(entry.model, prompts, entry.seed),
            results=self.results,
            closers=self.closers,
            shared=self.shared,
            adapter=self._policy_adapter(entry),
            pin=self.locks.fetched,
        )
        return caller, chat.details

    def served(self, entry: SystemEntry) -> ServedModels:
        """Its endpoint, or the server that is started for it."""
        started = entry.place == "server"
        style = entry.thinking_style or thinking_style_of(entry.model)
        fields: dict[str, Any] = {
            "endpoints": list(entry.base_url),
            "model": "" if started else entry.model,
            "revision": entry.revision,
            "api_key": self.keys.get(entry.key, ""),
            "key_variable": entry.key,
            "key_name": entry.key,
            "prompt_price": entry.prompt_price,
            "completion_price": entry.completion_price,
            "dollar_ceiling": entry.dollars,
            "context": entry.context,
            "concurrency": entry.concurrency,
            "call_deadline_s": entry.deadline_s,
            "thinking": entry.thinking if style != "none" else "default",
            "thinking_style": style,
            "thinking_tokens": entry.thinking_tokens,
            "continues": started if entry.continues is None else entry.continues,
            "recorded_as": ",".join(url.partition("://")[2] for url in entry.base_url),
            "context_setting": f"context = {{}} in [{entry.name}] of systems.toml",
        }
        if not started:
            fields["vllm"] = []
        return ServedModels(**{**dict(self.place), **fields})

    def _weights(self, entry: SystemEntry) -> Weights:
        adapter = adapter_folder(entry)
        revision = self.locks.fetched(entry.model, entry.revision) or MAIN
        given = "dtype" in entry.model_fields_set or not entry.recipe
        dtype = entry.dtype if given else experiment(entry.recipe).lora.dtype
        device = entry.device or self.device
        return Weights(entry.model, str(adapter or ""), revision, device, dtype)

    def _policy_adapter(self, entry: SystemEntry) -> PolicyAdapter | None:
        folder = adapter_folder(entry)
        if folder is None:
            return None
        return PolicyAdapter(entry.name, folder, entry.model, weights_digest(folder))

    def _guard(self, entry: SystemEntry, **asked: Any) -> ContextGuard:  # noqa: ANN401 - of a guard
        """The rule for claims beyond the context of the entry, or of its model."""
        context = entry.context
        revision = self.locks.cached(entry.model, entry.revision) or MAIN
        if entry.place == "in_process":
            context = context or context_of(entry.model, revision)
        else:
            served = self.served(entry)
            context = served.context_of(entry.model, revision)
            room = asked["room"]
            asked["room"] = replace(room, reply=room.reply + served.call_settings(entry.seed).room)
        counter = counter_of(entry.model, revision) if context else CautiousTokens()
        return ContextGuard(self.rule, context, counter=counter, **asked)

    @property
    def locks(self) -> ModelLocks:
        """The locked commits of the data folder."""
        return ModelLocks(models_lock(self.data))


def resampled(procedure: Procedure, entry: SystemEntry) -> Procedure:
    """The procedure with the entry's temperature and token limit in its calls.

    Further samples of a call keep their own temperature.
    """
    if all(value is None for value in _overrides(entry).values()):
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


def _overrides(entry: SystemEntry) -> dict[str, float | None]:
    return {"temperature": entry.temperature, "max_tokens": entry.max_tokens}


def refuse_missing_folder(entry: SystemEntry) -> None:
    """Refuse a model that is named by a path where there is nothing.

    Raises:
        ConfigError: that is so; an endpoint's path is its own and not looked at.
    """
    if is_path(entry.model) and entry.place != "endpoint" and not Path(entry.model).exists():
        raise ConfigError(f"[{entry.name}] model: there is no folder {entry.model}")


def adapter_folder(entry: SystemEntry) -> Path | None:
    """The folder of an entry's adapter on this machine; None where it has no adapter.

    Raises:
        ConfigError: the folder holds no adapter.
        EngineMissing: the hub's adapter is not on this machine.
    """
    if not entry.adapter:
        return None
    if is_path(entry.adapter):
        folder = Path(entry.adapter)
        if not (folder / ADAPTER_FILE).is_file():
            raise ConfigError(f"[{entry.name}] adapter: {folder} holds no {ADAPTER_FILE}")
        return folder.resolve()
    try:
        cached = cached_model(entry.adapter, entry.adapter_revision)
    except ValueError as error:
        raise ConfigError(f"[{entry.name}] adapter: no name of the hub: {entry.adapter}") from error
    if cached is None or not (cached / ADAPTER_FILE).is_file():
        raise EngineMissing(
            f"[{entry.name}] adapter: {entry.adapter} is not on this machine: hf download "
            f"{entry.adapter} --revision {entry.adapter_revision}"
        )
    return cached
