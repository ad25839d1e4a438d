"""The systems of the evaluation and what answers for them, as a Dagster resource.

    rules       RuleChat over the profile's verifier
    open        an open model, at an endpoint or on a server that the run starts
    openai      a model of api.openai.com
    endpoint    your own endpoint
    verifier    the profile's verifier, on claims as they are
    policy      a trained adapter on its base, in this process or at the endpoint of open models
    entry       what an entry of systems.toml names

Every system with a model of its own is one ``SystemEntry``; those of the catalogue and policies are
entries at an endpoint of the profile. One server runs at a time: the test sets of a run share it,
and another model takes its place. Two systems share replies only where model and recorded revision
are the same: an entry without a revision has the addresses of its endpoint in its place.

Opening a system loads no weights, starts no server and makes no call, except that the hub is asked
for the commit of a model to be loaded that is not locked yet; neither does a run whose claims are
all stored. A calibration in the data folder is applied where it fits model and prompt; one that
does not fit is an error.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr, SecretStr

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    offering,
)
from decomposerl.endpoint import Endpoint, is_path
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.evaluation.entries import QUESTIONS, TRACE, VERIFIER, SystemEntry
from decomposerl.evaluation.scored_claims import BeyondContext
from decomposerl.evaluation.systems import CONTEXTS, System
from decomposerl.prompts.template import (
    THREE_WAY,
    PromptFile,
    PromptSettings,
    VerdictRule,
    inline_prompt,
    labels_of,
)
from decomposerl.training.experiment import EvidenceView
from decomposerl.training.experiments import experiment
from resources.chat.endpoint import EndpointConfig, key_of, open_chat
from resources.evaluation.generation import (
    ROOMS,
    ContextGuard,
    Details,
    OpenedSystem,
    Room,
    Task,
    answers_third,
    counter_of,
    method_task,
    rule_of,
    verifier_task,
)
from resources.evaluation.local_model import (
    LocalModel,
    Weights,
    context_of,
    weights_digest,
)
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.runner import (
    CallSettings,
    ChatCaller,
    MethodCaller,
    MethodPrompts,
    Reply,
    VerifierCaller,
    scored,
)
from resources.evaluation.trained_policy import (
    PROMPT,
    REVISION,
    CheckpointRule,
    PolicyDecoding,
    chosen_policy,
    decoding_of,
    policy_procedure,
)
from resources.hub.access import cached_model
from resources.hub.adapters import ADAPTER_FILE
from resources.hub.locks import MAIN, ModelLocks, models_lock
from resources.store.parquet import DataFolder
from resources.store.prompts import load_policy_prompt
from resources.store.resource import StoredResource
from resources.store.stored_ports import StoredVerifier
from resources.tokens.word_tokens import CautiousTokens
from resources.training.run_inputs import base_of
from resources.training.run_store import RunFolder, recorded_in_config
from resources.verifier.hosted import entry_verifier
from resources.verifier.local import ClassifierVerifier
from resources.verifier.resource import VerifierResource
from resources.vllm.process import ServerCommand, SharedServer
from resources.vllm.server import (
    PolicyAdapter,
    ServerFields,
    refuse_short_context,
    serve_adapter,
)

if TYPE_CHECKING:
    from resources.chat.client import ChatClient

_URLS = {
    "open": "DECOMPOSERL_EVALUATION__BASE_URL",
    "policy": "DECOMPOSERL_EVALUATION__BASE_URL",
    "endpoint": "DECOMPOSERL_ENDPOINT__BASE_URL",
}
_CONTEXT = "DECOMPOSERL_EVALUATION__CONTEXT={} (the field context)"


class EvaluationModelResource(StoredResource):
    """The systems of a profile; its verifier is a separate resource.

    An endpoint without model and URL is none; ``open_models`` with ``runs="server"`` is started.
    """

    server: ServerFields = Field(default=ServerFields(), description="how a server is started")
    device: str = Field(default="cpu", description="models in process: torch's name")
    batch_size: int = Field(default=16, ge=1, description="models in process: traces at once")
    likeliest: int = Field(
        default=5, ge=0, le=20, description="top log-probabilities per token of a verdict; 0: none"
    )
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

    _shared: SharedServer = PrivateAttr(default_factory=SharedServer)

    @property
    def shared(self) -> SharedServer:
        """The server that the assets of a run share."""
        return self._shared

    @property
    def closers(self) -> list[Callable[[], None]]:
        """Functions to call when the run ends."""
        return self._closers

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
        guard, port = ContextGuard(self.beyond_context), system.model.port
        if port == "verifier":
            stored, task = verifier.open(), verifier_task(system, self.seed)
            return OpenedSystem(task, VerifierCaller(stored), data.path, stored.details, guard)
        entry = self._entry(system, data, checkpoint, three_way=three_way)
        if port == "rules":
            stored, task = (
                verifier.open(),
                method_task(system, self.seed, labels_of(rule_of(entry))),
            )
            chat = RuleChat(stored, self._prompts(entry))
            return OpenedSystem(task, chat, data.path, stored.details, guard)
        own = system.entry is not None
        engine = EntryEngine(
            entry,
            self,
            ModelLocks(models_lock(data.path)),
            identity=entry.identity if own else entry.revision,
            continues=port in {"open", "policy"} and not entry.at_openai,
            context_setting=f"context = {{}} in [{entry.name}] of systems.toml"
            if own
            else _CONTEXT,
            whole_context=port != "endpoint",  # a person's server may read less than its model
        )
        if entry.method == VERIFIER:
            procedure = partial(scored, threshold=entry.threshold)
            task = Task(system, procedure, VERIFIER, decomposes=False, seed=entry.seed)
            caller, details = engine.verifier(self.prompts_dir, allow_own=verifier.allow_own_prompt)
        elif entry.method == TRACE:
            task, caller, details, guard = self._trace(system, engine, samples)
        else:
            task, caller, details, guard = self._baseline(system, engine)
        return OpenedSystem(task, caller, data.path, details, guard)

    def _baseline(
        self, system: System, engine: "EntryEngine"
    ) -> tuple[Task, MethodCaller, Details, ContextGuard]:
        entry = engine.entry
        task = method_task(system, entry.seed, labels_of(entry.verdict_rule))
        settings = {name: value for name, value in entry.overrides.items() if value is not None}
        if settings:
            written = json.dumps(settings, sort_keys=True)
            task = replace(task, procedure=resampled(task.procedure, entry), settings=written)
        prompts, room = self._prompts(entry), ROOMS[system.protocol]
        room = replace(room, reply=entry.max_tokens or room.reply)
        caller, details = engine.caller(prompts)
        guard = engine.guard(self.beyond_context, prompts.file(task.prompt), room)
        return task, caller, details, guard

    def _trace(
        self, system: System, engine: "EntryEngine", samples: int
    ) -> tuple[Task, MethodCaller, Details, ContextGuard]:
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
        task = Task(
            system,
            offering(labels_of(rule), resampled(policy_procedure(decoding), entry)),
            PROMPT,
            settings=json.dumps([asdict(replace(decoding, samples=0)), decides], sort_keys=True),
            seed=entry.seed,
            samples=samples,
            revision=REVISION,
        )
        room = Room(decoding.max_tokens)
        return task, caller, details, engine.guard(self.beyond_context, file, room, decoding.view)

    def _entry(
        self, system: System, data: DataFolder, checkpoint: CheckpointRule, *, three_way: bool
    ) -> SystemEntry:
        """What the system's line in systems.toml says, or would say."""
        entry = system.entry
        if entry is not None:
            third = three_way and entry.method not in {TRACE, VERIFIER} and answers_third(system)
            return entry.model_copy(update={"verdict_rule": THREE_WAY}) if third else entry
        if system.model.port == "policy":
            return self._policy_entry(system, data, checkpoint)
        place: Endpoint = places(self).get(system.model.port, Endpoint())
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
            name=f"{recipe.name}-{chosen.step}",
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


@dataclass(frozen=True, slots=True)
class EntryEngine:
    """What answers for one entry, with what all systems of the resource share.

    ``identity`` is recorded where no loaded revision is known, ``continues`` whether its endpoint
    continues an assistant's turn unless the entry says so. ``context_setting`` is how its context
    is set, ``{}`` for the number, for messages alone. With ``whole_context`` a server that reads
    fewer tokens than its model is refused, else one that reads fewer than the entry's.
    """

    entry: SystemEntry
    model: EvaluationModelResource
    locks: ModelLocks
    identity: str = ""
    continues: bool = False
    context_setting: str = "context = {} of its endpoint"
    whole_context: bool = True

    def caller(self, prompts: MethodPrompts) -> tuple[MethodCaller, Details]:
        """The caller of a baseline or a trace, and what a run records of it.

        Raises:
            ConfigError: a folder of its is missing, or nothing starts its server.
            EngineMissing: its adapter is on the hub, and not on this machine.
        """
        entry, model = self.entry, self.model
        _refuse_missing_folder(entry)
        if entry.decomposer is not None:
            return self._with_decomposer(entry.decomposer, prompts)
        if entry.place == "in_process":
            likely = {"size": model.batch_size, "top_logprobs": model.likeliest}
            return LocalModel(self.weights, prompts, **likely, seed=entry.seed), dict
        chat = self.client()
        caller = ChatCaller(
            chat,
            self.call_settings,
            prompts=prompts,
            claims_at_once=entry.concurrency,
            price=entry.price,
        )
        return caller, chat.details

    def _with_decomposer(
        self, trained: SystemEntry, prompts: MethodPrompts
    ) -> tuple[MethodCaller, Details]:
        """One caller of both, with the counts of both."""
        text = {self.entry.method: inline_prompt(self.entry.method, {QUESTIONS: trained.user})}
        words = MethodPrompts(given=text) if trained.user else prompts
        plain = replace(self, entry=self.entry.model_copy(update={"decomposer": None}))
        questions = replace(self, entry=trained, identity=trained.identity)
        rest, details = plain.caller(prompts)
        decomposer, own = questions.caller(words)

        def counts() -> Mapping[str, int | float | str]:
            return {**details(), **{f"decomposer: {name}": n for name, n in own().items()}}

        return _WithDecomposer(rest, decomposer), counts

    def verifier(self, prompts_dir: str, *, allow_own: bool) -> tuple[MethodCaller, Details]:
        """The caller of a verifier, which cuts long evidence into chunks itself.

        ``prompts_dir`` and ``allow_own`` are as for ``minicheck_form``.

        Raises:
            ConfigError: the folder of its model is missing.
        """
        entry, cached = self.entry, self.locks.cached
        _refuse_missing_folder(entry)
        if entry.form == "classifier":
            local = ClassifierVerifier.of(entry, self.model.device, cached)
            stored = StoredVerifier(local, self.model.stores())
            return VerifierCaller(stored, entry.threshold), stored.details
        settings = self.call_settings
        hosted = entry_verifier(
            entry,
            self.client,
            cached,
            prompts_dir,
            thinking=settings.thinking,
            thought=settings.room,
            allow_own=allow_own,
        )
        return VerifierCaller(hosted, entry.threshold, entry.price), hosted.details

    def guard(
        self, rule: BeyondContext, file: PromptFile, room: Room, view: EvidenceView | None = None
    ) -> ContextGuard:
        """The rule for claims beyond the context of the entry, or of its model."""
        entry = self.entry
        revision = entry.revision
        if entry.place != "endpoint":
            revision = self.locks.cached(entry.model, revision)
        revision = revision or MAIN
        context = self._context(revision)
        counter = counter_of(entry.model, revision) if context else CautiousTokens()
        if entry.place != "in_process":
            room = replace(room, reply=room.reply + self.call_settings.room)
        return ContextGuard(rule, context, file, room, counter, view)

    @property
    def weights(self) -> Weights:
        """Its weights in this process; the hub is asked for a commit that is not locked yet."""
        entry, folder, revision = self.entry, adapter_folder(self.entry), self.entry.revision
        if entry.place != "endpoint":
            revision = self.locks.fetched(entry.model, revision)
        given = "dtype" in entry.model_fields_set or not entry.recipe
        dtype = entry.dtype if given else experiment(entry.recipe).lora.dtype
        device = entry.device or self.model.device
        return Weights(entry.model, str(folder or ""), revision or MAIN, device, dtype)

    @property
    def call_settings(self) -> CallSettings:
        """What decides the replies of its model, besides the model and the call."""
        continues = self.continues or self.entry.runs in {"vllm", "server"}
        entry, likeliest = self.entry, self.model.likeliest
        return CallSettings.at(entry, entry.seed, likeliest, continues=continues)

    def client(self, *, needs_logprobs: bool = False, needed_context: int = 0) -> "ChatClient":
        """The client of its model, or of its adapter served on it.

        It opens no connection before its first request. ``needs_logprobs``: an endpoint without log
        probabilities answers no request; one that reads fewer tokens than ``needed_context`` (by
        default those that are known of the model) is refused.

        Raises:
            ConfigError: it has no endpoint, and there is no command to start a server.
        """
        entry, model, adapter = self.entry, self.model, self._adapter()
        loaded, name = entry.revision, adapter.name if adapter else entry.model
        if not entry.base_url and not model.server.vllm:
            raise ConfigError(f"no endpoint serves '{name}', and none is to be started")
        if not entry.base_url:
            loaded = self.locks.fetched(entry.model, loaded)
        # Without an adapter a folder is read only where a server is started from it: an endpoint
        # may have other files. A model that was trained again, or on another base, has its own
        # replies.
        local = bool(adapter or not entry.base_url) and Path(entry.model).is_dir()
        base = weights_digest(Path(entry.model)) if local else loaded or self.identity
        started = self.server(loaded, adapter)
        # Called after chat.close: waiting threads would start it again.
        model.closers.append(model.shared.stop)
        recorded = "+".join(filter(None, (base, adapter.digest if adapter else "")))
        return open_chat(
            entry.model_copy(update={"model": name, "thinking_style": entry.style}),
            model.results_dir,
            model.closers,
            find_urls=lambda key: self._urls(started, adapter, key, needed_context),
            find_revision=lambda: recorded,
            sent_as=adapter.served_name if adapter else "",
            needs_logprobs=needs_logprobs,
        )

    def server(self, revision: str, adapter: PolicyAdapter | None = None) -> ServerCommand:
        """The server to start for its model, with its adapter where it has one."""
        fields = self.model.server.model_copy(update={"context": self.entry.context})
        return fields.command_for(self.entry.model, revision, adapter.words if adapter else ())

    def _urls(
        self,
        server: ServerCommand,
        adapter: PolicyAdapter | None,
        key: SecretStr,
        needed_context: int,
    ) -> tuple[str, ...]:
        """The endpoints, the adapter loaded there, or the run's server where there are none."""
        urls = self.entry.base_url or (self.model.shared.url(server),)
        for url in urls:
            context = needed_context or self.entry.context
            if not context and self.whole_context:
                context = self._context(server.revision or MAIN)
            refuse_short_context(url, self.entry.model, context, key, self.context_setting)
        if adapter:
            for url in urls:
                serve_adapter(url, adapter, key)
            if weights_digest(adapter.folder) != adapter.digest:
                raise EngineError(f"{adapter.folder} was replaced while it was read: start again")
        return urls

    def _context(self, revision: str) -> int:
        """Tokens of prompt and reply together that its model reads; 0: not known."""
        entry = self.entry
        return entry.context or CONTEXTS.get(entry.model) or context_of(entry.model, revision)

    def _adapter(self) -> PolicyAdapter | None:
        folder = adapter_folder(self.entry)
        if folder is None:
            return None
        folder = folder.resolve()
        return PolicyAdapter(self.entry.name, folder, self.entry.model, weights_digest(folder))


class _WithDecomposer:
    """A ``MethodCaller`` whose calls that write questions have a model of their own."""

    def __init__(self, rest: MethodCaller, decomposer: MethodCaller) -> None:
        """``decomposer`` answers the operation ``decompose``, ``rest`` all others."""
        self._rest, self._decomposer = rest, decomposer
        self.concurrent = rest.concurrent and decomposer.concurrent
        self.claims_at_once = min(rest.claims_at_once, decomposer.claims_at_once)

    @property
    def engine(self) -> str:
        """Both engines."""
        return f"{self._rest.engine} questions={self._decomposer.engine}"

    def prompt_hash(self, prompt: str) -> str:
        """Over the hashes of both."""
        hashes = f"{self._rest.prompt_hash(prompt)} {self._decomposer.prompt_hash(prompt)}"
        return hashlib.sha256(hashes.encode()).hexdigest()

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order; errors as those of the two."""
        written = [call for call in calls if call.operation == "decompose"]
        others = [call for call in calls if call.operation != "decompose"]
        questions = iter(self._decomposer.answer(prompt, written) if written else ())
        replies = iter(self._rest.answer(prompt, others) if others else ())
        return [next(questions if call.operation == "decompose" else replies) for call in calls]


def _refuse_missing_folder(entry: SystemEntry) -> None:
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
