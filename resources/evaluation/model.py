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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PrivateAttr, SecretStr

from decomposerl.baselines.method import ModelCall, Procedure, offering, through
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
    METHODS,
    ContextGuard,
    OpenedSystem,
    Task,
    counter_of,
    method_task,
    opened_by_rules,
)
from resources.evaluation.local_model import LocalModel, Weights, context_of, weights_digest
from resources.evaluation.runner import (
    ChatCaller,
    Details,
    MethodCaller,
    MethodPrompts,
    Reply,
    VerifierCaller,
    scored,
)
from resources.evaluation.trained_policy import (
    PROMPT,
    REVISION,
    PolicyDecoding,
    decoding_of,
    final_adapter,
    policy_procedure,
)
from resources.hub.access import cached_model
from resources.hub.adapters import ADAPTER_FILE
from resources.hub.locks import MAIN, ModelLocks, models_lock
from resources.store.parquet import DataFolder
from resources.store.prompts import load_policy_prompt
from resources.store.resource import StoredResource
from resources.store.stored_ports import StoredVerifier
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

_ROOMS = {"single_call": 3_072, "faithful": 2_048}
"""Tokens of a baseline's longest reply, by its protocol."""
_LATER = 2_048  # tokens that later calls of a claim add to a faithful baseline's prompt
_URLS = {
    "open": "DECOMPOSERL_EVALUATION__BASE_URL",
    "policy": "DECOMPOSERL_EVALUATION__BASE_URL",
    "endpoint": "DECOMPOSERL_ENDPOINT__BASE_URL",
}


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

    @property
    def places(self) -> dict[str, EndpointConfig]:
        """The endpoints by the port of a system."""
        return {
            "open": self.open_models,
            "policy": self.open_models,
            "openai": self.openai,
            "endpoint": self.endpoint,
        }

    def opened(
        self,
        system: System,
        data: DataFolder,
        verifier: VerifierResource,
        *,
        three_way: bool = False,
    ) -> OpenedSystem:
        """The system, ready to predict.

        ``three_way``: for claims of three labels. Baselines whose model may end with the third
        verdict are prompted for it; a policy keeps its recipe's rule, an entry its own.

        Raises:
            ConfigError: the profile has no engine for it, or its policy was not trained.
        """
        if why := unavailable(self, verifier.engine, system):
            raise ConfigError(why)
        entry = self._entry(system, data, three_way=three_way)
        guard, port, rule = ContextGuard(self.beyond_context), system.model.port, entry.verdict_rule
        if port in {"verifier", "rules"}:
            parts = (verifier.open(), self._prompts(entry), guard, self.seed, labels_of(rule))
            return opened_by_rules(system, data.path, *parts)
        engine = entry_engine(entry, self, ModelLocks(models_lock(data.path)), port)
        if entry.method == VERIFIER:
            procedure = partial(scored, threshold=entry.threshold)
            task = Task(system, procedure, VERIFIER, decomposes=False, seed=entry.seed)
            return OpenedSystem(task, engine.verifier(verifier), data.path, guard)
        if entry.method == TRACE:
            return self._trace(system, engine, data.path)
        task, prompts = method_task(system, entry.seed, labels_of(rule)), self._prompts(entry)
        settings = {name: value for name, value in entry.overrides.items() if value is not None}
        if settings:
            written = json.dumps(settings, sort_keys=True)
            task = replace(task, procedure=_resampled(task.procedure, entry), settings=written)
        room = entry.max_tokens or _ROOMS[system.protocol]
        room += _LATER if system.protocol == "faithful" else 0
        guard = engine.guard(prompts.file(task.prompt), room)
        return OpenedSystem(task, engine.caller(prompts), data.path, guard)

    def _trace(self, system: System, engine: "EntryEngine", folder: Path) -> OpenedSystem:
        """A policy, or an entry that answers as one; no adapter is needed."""
        entry, rule = engine.entry, engine.entry.verdict_rule
        # Earlier versions drew samples; their settings stay in the key of stored predictions.
        decoding, drawn = PolicyDecoding(), {"samples": 0, "temperature": 1.0}
        if entry.recipe:
            recipe = experiment(entry.recipe)
            decoding, drawn["temperature"] = decoding_of(recipe), recipe.sampling.temperature
        decoding = replace(decoding, max_tokens=entry.max_tokens or decoding.max_tokens)
        own = entry.prompts or self.prompts_dir
        file = load_policy_prompt(entry.model, own, PromptSettings(rule))
        # A policy's own name says which weights answer; its engine's name is of the recipe's step.
        decides = entry.overrides if system.entry is not None else engine.weights.name
        task = Task(
            system,
            offering(labels_of(rule), _resampled(policy_procedure(decoding), entry)),
            PROMPT,
            settings=json.dumps([asdict(decoding) | drawn, decides], sort_keys=True),
            seed=entry.seed,
            revision=REVISION,
        )
        caller = engine.caller(MethodPrompts(given={PROMPT: file}))
        guard = engine.guard(file, decoding.max_tokens, decoding.view)
        return OpenedSystem(task, caller, folder, guard)

    def _entry(self, system: System, data: DataFolder, *, three_way: bool) -> SystemEntry:
        """What the system's table in systems.toml says, or would say; with its recipe's values.

        A place's values were checked as the profile's.
        """
        entry, port = system.entry, system.model.port
        if entry is not None:
            fields: dict[str, object] = {}
            if entry.recipe:
                recipe = experiment(entry.recipe)
                fields = {"verdict_rule": recipe.verdict_rule, "dtype": recipe.lora.dtype}
            elif entry.method in METHODS and METHODS[entry.method].three_way and three_way:
                return entry.model_copy(update={"verdict_rule": THREE_WAY})
            given = entry.model_fields_set
            return entry.model_copy(update={k: v for k, v in fields.items() if k not in given})
        place: Endpoint = self.places.get(port, Endpoint())
        if port == "policy":
            served = self.policies == "served"
            place = place if served else Endpoint(runs="in_process")
            fields = self._policy(system, data, place)
        else:
            rule = THREE_WAY if three_way else self.verdict_rule
            third = rule == THREE_WAY and not METHODS[system.method].three_way
            fields = {
                "name": system.key,
                "method": system.method,
                "protocol": system.protocol,
                "model": place.model or system.model.requested,
                "verdict_rule": "evidence" if third else rule,
                "demonstrations": None if self.demonstrations < 0 else self.demonstrations,
            }
        listed = {"base_url": tuple(place.base_url), "served_as": tuple(place.served_as)}
        of_place = dict(place) | listed | {"seed": self.seed}
        return SystemEntry.model_construct(**(of_place | fields))

    def _policy(self, system: System, data: DataFolder, place: Endpoint) -> dict[str, object]:
        """The fields of an entry of a recipe's adapter on its base.

        The commit of a hub's base is the one it was trained on, else the locked one; at an endpoint
        it is what the settings say.
        """
        recipe = experiment(system.model.key)
        (adapter, step), base = final_adapter(data, recipe.name), base_of(data, recipe)
        revision = self.open_models.revision
        if place.place != "endpoint":
            recorded = recorded_in_config(RunFolder(data.path / "policy" / recipe.name), "revision")
            revision = recorded or ModelLocks(models_lock(data.path)).fetched(base, revision)
        return {
            "name": f"{recipe.name}-{step}",
            "method": TRACE,
            "model": base,
            "revision": revision,
            "adapter": str(adapter.resolve()),
            "recipe": recipe.name,
            "dtype": recipe.lora.dtype,
            "verdict_rule": recipe.verdict_rule,
            "thinking_style": place.thinking_style or "none",
        }

    def _prompts(self, entry: SystemEntry) -> MethodPrompts:
        wording = PromptSettings(entry.verdict_rule, entry.demonstrations)
        return MethodPrompts(entry.prompts or self.prompts_dir, settings=wording)


def unavailable(model: EvaluationModelResource, verifier: str, system: System) -> str:
    """Why a system cannot run; empty where it may, also if its policy was not trained yet.

    ``verifier`` is the engine of the profile's verifier. What an entry names is seen at its run.
    """
    port, requested = system.model.port, system.model.requested
    if port == "verifier" and requested != verifier:
        return f"system '{system.key}' needs the verifier {requested}; this profile has {verifier}"
    place = model.places.get(port)
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


def _resampled(procedure: Procedure, entry: SystemEntry) -> Procedure:
    """The procedure with the entry's temperature and token limit in its calls.

    Further samples of a call (ChenEtAl's) keep their own temperature.
    """

    def changed(call: ModelCall) -> ModelCall:
        warm = entry.temperature
        if warm is None or call.sample:
            warm = call.temperature
        return replace(call, temperature=warm, max_tokens=entry.max_tokens or call.max_tokens)

    return lambda given: through(procedure(given), lambda calls: tuple(map(changed, calls)))


def entry_engine(
    entry: SystemEntry, model: EvaluationModelResource, locks: ModelLocks, port: str = "entry"
) -> "EntryEngine":
    """What answers for an entry: with its adapter's folder, and the commit that is loaded.

    The hub is asked for a commit that is neither locked nor cached.

    Raises:
        ConfigError: a folder of its is missing.
        EngineMissing: its adapter is on the hub, and not on this machine.
    """
    here = entry.place != "endpoint"  # an endpoint's path is its own
    if here and is_path(entry.model) and not Path(entry.model).exists():
        raise ConfigError(f"[{entry.name}] model: there is no folder {entry.model}")
    changes = {"adapter": str(adapter_folder(entry))} if entry.adapter else {}
    if here and entry.form != "classifier":
        changes["revision"] = locks.fetched(entry.model, entry.revision)
    return EntryEngine(entry.model_copy(update=changes), model, locks, port)


@dataclass(frozen=True, slots=True)
class EntryEngine:
    """What answers for one entry, with what all systems of the resource share.

    ``port`` is that of its system: an entry without a revision has its addresses in the engine's
    name, and a person's own endpoint may read fewer tokens than its model.
    """

    entry: SystemEntry
    model: EvaluationModelResource
    locks: ModelLocks
    port: str = "entry"

    def caller(self, prompts: MethodPrompts) -> MethodCaller:
        """The caller of a baseline or a trace.

        Raises:
            ConfigError: nothing starts its server, or as ``entry_engine`` for its decomposer.
        """
        entry, model = self.entry, self.model
        if (trained := entry.decomposer) is not None:
            text = {entry.method: inline_prompt(entry.method, {QUESTIONS: trained.user})}
            words = MethodPrompts(given=text) if trained.user else prompts
            plain = replace(self, entry=entry.model_copy(update={"decomposer": None}))
            decomposer = entry_engine(trained, model, self.locks, self.port)
            return _WithDecomposer(plain.caller(prompts), decomposer.caller(words))
        shared = {"seed": entry.seed, "top_logprobs": model.likeliest}
        if entry.place == "in_process":
            return LocalModel(self.weights, prompts, size=model.batch_size, **shared)
        served = self.port in {"open", "policy"} and not entry.at_openai
        continues = served or entry.runs in {"vllm", "server"}
        return ChatCaller(self.client(), entry, prompts, continues=continues, **shared)

    def verifier(self, profile: VerifierResource) -> VerifierCaller:
        """The caller of a verifier, which cuts long evidence into chunks itself."""
        entry, model, pin = self.entry, self.model, self.locks.cached
        if entry.form == "classifier":
            local = ClassifierVerifier.of(entry, model.device, pin)
            return VerifierCaller(StoredVerifier(local, model.stores()), entry.threshold)
        own = {"allow_own": profile.allow_own_prompt}
        hosted = entry_verifier(entry, self.client, pin, model.prompts_dir, **own)
        return VerifierCaller(hosted, entry.threshold, entry.price)

    def guard(self, file: PromptFile, room: int, view: EvidenceView | None = None) -> ContextGuard:
        """The rule for claims beyond the context of the entry, or of its model."""
        entry, rule = self.entry, self.model.beyond_context
        if not (context := self._context()):
            return ContextGuard(rule, view=view)
        room += 0 if entry.place == "in_process" else entry.thought_tokens
        counter = counter_of(entry.model, entry.revision or MAIN)
        return ContextGuard(rule, context, file, room, counter, view)

    @property
    def weights(self) -> Weights:
        """Its weights in this process."""
        entry, device = self.entry, self.entry.device or self.model.device
        return Weights(entry.model, entry.adapter, entry.revision or MAIN, device, entry.dtype)

    def client(self, *, needs_logprobs: bool = False, needed_context: int = 0) -> "ChatClient":
        """The client of its model, or of its adapter served on it.

        It opens no connection before its first request. ``needs_logprobs``: an endpoint without log
        probabilities answers no request; one that reads fewer tokens than ``needed_context`` (by
        default those that are known of the model) is refused.

        Raises:
            ConfigError: it has no endpoint, and there is no command to start a server.
        """
        entry, model, adapter = self.entry, self.model, None
        if entry.adapter:
            folder = Path(entry.adapter)
            adapter = PolicyAdapter(entry.name, folder, entry.model, weights_digest(folder))
        name = adapter.name if adapter else entry.model
        if not entry.base_url and not model.server.vllm:
            raise ConfigError(f"no endpoint serves '{name}', and none is to be started")
        # Without an adapter a folder is read only where a server is started from it: an endpoint
        # may have other files. A model that was trained again, or on another base, has its own
        # replies.
        local = bool(adapter or not entry.base_url) and Path(entry.model).is_dir()
        identity = entry.identity if self.port == "entry" else entry.revision
        base = weights_digest(Path(entry.model)) if local else identity
        fields = model.server.model_copy(update={"context": entry.context})
        words = adapter.words if adapter else ()
        started = fields.command_for(entry.model, entry.revision, words)
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

    def _urls(
        self,
        server: ServerCommand,
        adapter: PolicyAdapter | None,
        key: SecretStr,
        needed_context: int,
    ) -> tuple[str, ...]:
        """The endpoints, the adapter loaded there, or the run's server where there are none."""
        entry = self.entry
        urls = entry.base_url or (self.model.shared.url(server),)
        context = needed_context or (entry.context if self.port == "endpoint" else self._context())
        setting = "DECOMPOSERL_EVALUATION__CONTEXT={} (the field context)"
        if self.port == "entry":
            setting = f"context = {{}} in [{entry.name}] of systems.toml"
        for url in urls:
            refuse_short_context(url, entry.model, context, key, setting)
            if adapter:
                serve_adapter(url, adapter, key)
        if adapter and weights_digest(adapter.folder) != adapter.digest:
            raise EngineError(f"{adapter.folder} was replaced while it was read: start again")
        return urls

    def _context(self) -> int:
        """Tokens of prompt and reply together that its model reads; 0: not known."""
        entry, known = self.entry, CONTEXTS.get(self.entry.model, 0)
        return entry.context or known or context_of(entry.model, entry.revision or MAIN)


class _WithDecomposer:
    """A ``MethodCaller`` whose calls that write questions have a model of their own."""

    def __init__(self, rest: MethodCaller, decomposer: MethodCaller) -> None:
        """``decomposer`` answers the operation ``decompose``, ``rest`` all others."""
        self._rest, self._decomposer = rest, decomposer
        self.engine = f"{rest.engine} questions={decomposer.engine}"
        self.concurrent = rest.concurrent and decomposer.concurrent
        self.claims_at_once = min(rest.claims_at_once, decomposer.claims_at_once)

    def details(self) -> Details:
        """The counts of both."""
        own = self._decomposer.details()
        return {**self._rest.details(), **{f"decomposer: {name}": n for name, n in own.items()}}

    def prompt_hash(self, prompt: str) -> str:
        """Over the hashes of both."""
        hashes = f"{self._rest.prompt_hash(prompt)} {self._decomposer.prompt_hash(prompt)}"
        return hashlib.sha256(hashes.encode()).hexdigest()

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order; errors as those of the two."""
        replies: dict[int, Reply] = {}
        for caller, decomposes in ((self._decomposer, True), (self._rest, False)):
            own = {n: c for n, c in enumerate(calls) if (c.operation == "decompose") == decomposes}
            answers = caller.answer(prompt, list(own.values())) if own else []
            replies |= zip(own, answers, strict=True)
        return [replies[place] for place in range(len(calls))]


def adapter_folder(entry: SystemEntry) -> Path:
    """The folder of an entry's adapter on this machine.

    Raises:
        ConfigError: the folder holds no adapter, or the name is none of the hub.
        EngineMissing: the hub's adapter is not on this machine.
    """
    own, name = is_path(entry.adapter), f"[{entry.name}] adapter: "
    try:
        folder = Path(entry.adapter) if own else cached_model(entry.adapter, entry.adapter_revision)
    except ValueError as error:
        raise ConfigError(f"{name}no name of the hub: {entry.adapter}") from error
    if folder is not None and (folder / ADAPTER_FILE).is_file():
        return folder.resolve()
    if own:
        raise ConfigError(f"{name}{folder} holds no {ADAPTER_FILE}")
    raise EngineMissing(
        f"{name}{entry.adapter} is not on this machine: hf download {entry.adapter} --revision "
        f"{entry.adapter_revision}"
    )
