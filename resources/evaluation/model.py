"""The systems of the evaluation and what answers for them, as a Dagster resource.

    rules       RuleChat over the profile's verifier
    open        an open model, at an endpoint or on a server that the run starts
    openai      a model of api.openai.com
    endpoint    your own endpoint
    verifier    the profile's verifier, on claims as they are
    policy      a trained adapter on its base, in this process or at the endpoint of open models
    entry       what an entry of systems.toml names

Each is opened as a ``SystemEntry``; those of the catalogue and policies are entries at an endpoint
of the profile. One server runs at a time: the test sets of a run share it, and another model takes
its place. Two systems share replies only where model and recorded revision are the same: an entry
without a revision has the addresses of its endpoint in its place.

Opening a system loads no weights, starts no server and makes no call, except that the hub is asked
for the commit of a model to be loaded that is not locked yet; neither does a run whose claims are
all stored. A calibration in the data folder is applied where it fits model and prompt; one that
does not fit is an error.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PrivateAttr, SecretStr

from decomposerl.baselines.method import ModelCall, Procedure, offering, through
from decomposerl.endpoint import Endpoint, is_path
from decomposerl.errors import ConfigError, EngineError
from decomposerl.evaluation.entries import TRACE, VERIFIER, SystemEntry
from decomposerl.evaluation.scored_claims import BeyondContext
from decomposerl.evaluation.systems import System
from decomposerl.prompts.template import (
    THREE_WAY,
    PromptFile,
    PromptSettings,
    VerdictRule,
    labels_of,
)
from decomposerl.training.experiment import EvidenceView
from decomposerl.training.experiments import experiment
from resources.chat.endpoint import EndpointConfig, key_of, open_chat
from resources.evaluation.generation import (
    METHODS,
    ContextGuard,
    OpenedSystem,
    counter_of,
    opened_method,
)
from resources.evaluation.local_model import LocalModel, context_of, weights_digest, weights_name
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.runner import (
    ChatCaller,
    MethodCaller,
    MethodPrompts,
    VerifierCaller,
    scored,
)
from resources.evaluation.trained_policy import PROMPT, REVISION, policy_fields, trace_procedure
from resources.hub.adapters import adapter_folder
from resources.hub.locks import MAIN, ModelLocks, Pin, models_lock
from resources.store.parquet import DataFolder
from resources.store.prompts import load_policy_prompt
from resources.store.resource import StoredResource
from resources.store.stored_ports import StoredVerifier
from resources.verifier.hosted import entry_verifier
from resources.verifier.local import ClassifierVerifier
from resources.verifier.resource import VerifierResource
from resources.vllm.process import SharedServer
from resources.vllm.server import (
    ServedAdapter,
    ServerFields,
    refuse_short_context,
    serve_adapter,
)

if TYPE_CHECKING:
    from resources.chat.client import ChatClient

_ROOMS = {"single_call": 3_072, "faithful": 2_048}
"""Tokens of a baseline's longest reply, by its protocol."""
_LATER = {"single_call": 0, "faithful": 2_048}  # tokens that later calls add to a prompt
_TRACE_TOKENS = 4_500
_PLACES = {
    "open": ("open_models", "DECOMPOSERL_EVALUATION__BASE_URL"),
    "policy": ("open_models", "DECOMPOSERL_EVALUATION__BASE_URL"),
    "openai": ("openai", ""),
    "endpoint": ("endpoint", "DECOMPOSERL_ENDPOINT__BASE_URL"),
}
"""The endpoint of a port of systems, and the variable that sets its address."""


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
            ConfigError: the profile has no engine for it, its policy was not trained, or a folder
                of its entry is missing.
            EngineMissing: its adapter is on the hub, and not on this machine.
        """
        if why := unavailable(self, verifier.engine, system):
            raise ConfigError(why)
        locks, port = ModelLocks(models_lock(data.path)), system.model.port
        entry = self._entry(system, data, three_way=three_way)
        wording = PromptSettings(entry.verdict_rule, entry.demonstrations)
        prompts = MethodPrompts(entry.prompts or self.prompts_dir, settings=wording)
        guard, labels = ContextGuard(self.beyond_context), labels_of(entry.verdict_rule)
        if port in {"verifier", "rules"}:
            weighs = verifier.open()
            by_rules = RuleChat(weighs, prompts) if port == "rules" else VerifierCaller(weighs)
            return opened_method(system, by_rules, data.path, guard, self.seed, labels)
        entry = self._located(entry, locks)
        # Without a revision an entry has its addresses there: two never share replies.
        recorded = entry.revision if system.entry is None else entry.identity
        # A person's own endpoint may read fewer tokens than its model.
        expected = entry.context if port == "endpoint" else context_of(entry)
        client = partial(self._client, entry, recorded, needed_context=expected)
        if entry.method == VERIFIER:
            caller = self._verifier(entry, client, locks.cached, verifier)
            cut = partial(scored, threshold=entry.threshold)
            opened = OpenedSystem(system, cut, VERIFIER, caller, data.path, guard, entry.seed)
            return replace(opened, decomposes=False)
        if entry.method == TRACE:
            return self._trace(system, entry, client, data.path)
        room = (entry.max_tokens or _ROOMS[system.protocol]) + _LATER[system.protocol]
        guard = self._guard(entry, prompts.file(METHODS[system.method].prompt), room)
        asked = self._caller(entry, prompts, client)
        opened = opened_method(system, asked, data.path, guard, entry.seed, labels)
        if own := {name: value for name, value in entry.overrides.items() if value is not None}:
            opened.procedure = _resampled(opened.procedure, entry)
            opened.settings = json.dumps(own, sort_keys=True)
        return opened

    def _trace(
        self, system: System, entry: SystemEntry, client: "OpenClient", folder: Path
    ) -> OpenedSystem:
        """A policy, or an entry that answers as one; no adapter is needed."""
        view, most, warm, rule = None, _TRACE_TOKENS, 1.0, entry.verdict_rule
        if entry.recipe:
            recipe = experiment(entry.recipe)
            view, warm = recipe.evidence_view, recipe.sampling.temperature
            most = recipe.sampling.max_completion_tokens
        most = entry.max_tokens or most
        words = entry.prompts or self.prompts_dir
        file = load_policy_prompt(entry.model, words, PromptSettings(rule))
        # Earlier versions drew samples; their settings stay in the key of stored predictions.
        seen = None if view is None else asdict(view)
        decoding = {"view": seen, "max_tokens": most, "samples": 0, "temperature": warm}
        # A policy's own name says which weights answer; its engine's name is of the recipe's step.
        decides = entry.overrides if system.entry is not None else weights_name(entry)
        return OpenedSystem(
            system,
            offering(labels_of(rule), _resampled(trace_procedure(view, most), entry)),
            PROMPT,
            self._caller(entry, MethodPrompts(given={PROMPT: file}), client),
            folder,
            self._guard(entry, file, most, view),
            entry.seed,
            settings=json.dumps([decoding, decides], sort_keys=True),
            revision=REVISION,
        )

    def _entry(self, system: System, data: DataFolder, *, three_way: bool) -> SystemEntry:
        """What the system's table in systems.toml says, or would say; with its recipe's values.

        A place's values were checked as the profile's.
        """
        entry, port, method = system.entry, system.model.port, METHODS.get(system.method)
        third = three_way and method is not None and method.three_way
        if entry is not None and (third or not entry.recipe):
            return entry.model_copy(update={"verdict_rule": THREE_WAY} if third else {})
        if entry is not None:
            recipe, given = experiment(entry.recipe), entry.model_fields_set
            of_recipe = {"verdict_rule": recipe.verdict_rule, "dtype": recipe.lora.dtype}
            return entry.model_copy(update={k: v for k, v in of_recipe.items() if k not in given})
        place: Endpoint = getattr(self, _PLACES[port][0]) if port in _PLACES else Endpoint()
        fields: dict[str, object]
        if port == "policy":
            recipe = experiment(system.model.key)
            if self.policies == "in_process":
                place = Endpoint(runs="in_process", revision=place.revision)
            fields = {
                **policy_fields(data, recipe, place),
                "method": TRACE,
                "dtype": recipe.lora.dtype,
                "verdict_rule": recipe.verdict_rule,
            }
        else:
            rule = THREE_WAY if third else self.verdict_rule
            offered = rule != THREE_WAY or (method is not None and method.three_way)
            fields = {
                "name": system.key,
                "method": system.method,
                "protocol": system.protocol,
                "model": place.model or system.model.requested,
                "verdict_rule": rule if offered else "evidence",
                "demonstrations": None if self.demonstrations < 0 else self.demonstrations,
            }
        served = port in {"open", "policy"} and not place.at_openai
        if place.continues is None and served:
            fields["continues"] = True
        listed = {"base_url": tuple(place.base_url), "served_as": tuple(place.served_as)}
        of_place = dict(place) | listed | {"seed": self.seed}
        return SystemEntry.model_construct(**(of_place | fields))

    def _located(self, entry: SystemEntry, locks: ModelLocks) -> SystemEntry:
        """With its adapter's folder, its device, and the commit that is loaded.

        The hub is asked for a commit that is neither locked nor cached.
        """
        here = entry.place != "endpoint"  # an endpoint's path is its own
        if here and is_path(entry.model) and not Path(entry.model).exists():
            raise ConfigError(f"[{entry.name}] model: there is no folder {entry.model}")
        changes = {"device": entry.device or self.device}
        if entry.adapter:
            changes["adapter"] = str(adapter_folder(entry))
        if here and entry.form != "classifier":
            changes["revision"] = locks.fetched(entry.model, entry.revision)
        return entry.model_copy(update=changes)

    def _caller(
        self, entry: SystemEntry, prompts: MethodPrompts, client: "OpenClient"
    ) -> MethodCaller:
        """The caller of a baseline or a trace."""
        shared = {"seed": entry.seed, "top_logprobs": self.likeliest}
        if entry.place == "in_process":
            return LocalModel(entry, prompts, size=self.batch_size, **shared)
        continues = entry.runs in {"vllm", "server"}
        return ChatCaller(client(), entry, prompts, continues=continues, **shared)

    def _verifier(
        self, entry: SystemEntry, client: "OpenClient", pin: Pin, profile: VerifierResource
    ) -> VerifierCaller:
        """The caller of a verifier, which cuts long evidence into chunks itself."""
        if entry.form == "classifier":
            local = ClassifierVerifier.of(entry, self.device, pin)
            return VerifierCaller(StoredVerifier(local, self.stores()), entry.threshold)
        own = {"allow_own": profile.allow_own_prompt}
        hosted = entry_verifier(entry, client, pin, self.prompts_dir, **own)
        return VerifierCaller(hosted, entry.threshold, entry.price)

    def _guard(
        self, entry: SystemEntry, file: PromptFile, room: int, view: EvidenceView | None = None
    ) -> ContextGuard:
        """The rule for claims beyond the context of the entry, or of its model."""
        if not (context := context_of(entry)):
            return ContextGuard(self.beyond_context)
        room += 0 if entry.place == "in_process" else entry.thought_tokens
        counter = counter_of(entry.model, entry.revision or MAIN)
        return ContextGuard(self.beyond_context, context, file, room, counter, view)

    def _client(
        self,
        entry: SystemEntry,
        recorded: str,
        *,
        needed_context: int,
        needs_logprobs: bool = False,
    ) -> "ChatClient":
        """The client of an entry's model, or of its adapter served on it.

        It opens no connection before its first request. ``recorded`` is the revision that its
        replies are stored under. An endpoint that reads fewer tokens than ``needed_context`` is
        refused, with ``needs_logprobs`` also one without log probabilities.

        Raises:
            ConfigError: it has no endpoint, and there is no command to start a server.
        """
        adapter, base = None, Path(entry.model)
        # Without an adapter a folder is read only where a server is started from it: an endpoint
        # may have other files. A model that was trained again, or on another base, has its own
        # replies.
        if (entry.adapter or not entry.base_url) and base.is_dir():
            recorded = weights_digest(base)
        if entry.adapter:
            trained = weights_digest(Path(entry.adapter))
            recorded = "+".join(filter(None, (recorded, trained)))
            adapter = ServedAdapter(f"{entry.name}-{trained}", Path(entry.adapter), entry.model)
        name = entry.name if adapter else entry.model
        if not entry.base_url and not self.server.vllm:
            raise ConfigError(f"no endpoint serves '{name}', and none is to be started")
        fields = self.server.model_copy(update={"context": entry.context})
        words = adapter.words if adapter else ()
        started = fields.command_for(entry.model, entry.revision, words)
        # Called after chat.close: waiting threads would start it again.
        self._closers.append(self._shared.stop)

        def find_urls(secret: SecretStr) -> Sequence[str]:
            """The endpoints, the adapter loaded there, or the run's server where there are none."""
            urls, key = entry.base_url or (self._shared.url(started),), secret.get_secret_value()
            for url in urls:
                refuse_short_context(url, entry, needed_context, key)
                if adapter:
                    serve_adapter(url, adapter, key)
            if adapter and not adapter.name.endswith(f"-{weights_digest(adapter.folder)}"):
                raise EngineError(f"{adapter.folder} was replaced while it was read: start again")
            return urls

        return open_chat(
            entry.model_copy(update={"model": name, "thinking_style": entry.style}),
            self.results_dir,
            self._closers,
            find_urls=find_urls,
            find_revision=lambda: recorded,
            sent_as=adapter.name if adapter else "",
            needs_logprobs=needs_logprobs,
        )


OpenClient = Callable[..., "ChatClient"]
"""``EvaluationModelResource._client`` of one entry."""


def unavailable(model: EvaluationModelResource, verifier: str, system: System) -> str:
    """Why a system cannot run; empty where it may, also if its policy was not trained yet.

    ``verifier`` is the engine of the profile's verifier. What an entry names is seen at its run.
    """
    port, requested = system.model.port, system.model.requested
    if port == "verifier" and requested != verifier:
        return f"system '{system.key}' needs the verifier {requested}; this profile has {verifier}"
    if port not in _PLACES or (port == "policy" and model.policies == "in_process"):
        return ""
    field, variable = _PLACES[port]
    place: EndpointConfig = getattr(model, field)
    named = place.model or requested or "your own model"
    if not (place.base_url or place.runs or place.model):
        hint = f": set {variable}" if variable else ""
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
