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
all stored. Also which claims training has used: the leak check, and the unused dev split.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl
from pydantic import Field, PrivateAttr, SecretStr

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
    ask,
    offering,
    through,
)
from decomposerl.endpoint import Endpoint, is_path
from decomposerl.errors import ConfigError, EngineError, EvaluationError
from decomposerl.evaluation.calibration import dev_split
from decomposerl.evaluation.entries import QUESTIONS, TRACE, VERIFIER, SystemEntry
from decomposerl.evaluation.scored_claims import BeyondContext
from decomposerl.evaluation.systems import System
from decomposerl.funnel.catalogue import COMPARED, decontaminate
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.ports import Embedder
from decomposerl.prompts.policy import NAME as POLICY
from decomposerl.prompts.template import (
    THREE_WAY,
    PromptSettings,
    VerdictRule,
    inline_prompt,
    labels_of,
)
from decomposerl.traces.grammar import parse_trace
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView
from decomposerl.training.experiments import EXPERIMENTS, experiment
from resources.chat.connection import key_of
from resources.chat.endpoint import EndpointConfig, open_chat
from resources.evaluation.generation import METHODS, ContextGuard, OpenedSystem, opened_method
from resources.evaluation.local_model import LocalModel, context_of, weights_digest, weights_name
from resources.evaluation.results_folder import read_required
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.runner import (
    ChatCaller,
    MethodCaller,
    MethodPrompts,
    VerifierCaller,
    WithDecomposer,
    scored,
)
from resources.hub.adapters import adapter_folder
from resources.hub.locks import ModelLocks, models_lock
from resources.store.integrity import read_parquet, verified
from resources.store.parquet import DataFolder
from resources.store.prompts import load_policy_prompt
from resources.store.resource import StoredResource
from resources.store.stored_ports import StoredVerifier
from resources.training.run_inputs import base_of, inputs_of, notes_folder
from resources.training.run_store import RunFolder, read_outcome, recorded_in_config
from resources.verifier.hosted import entry_verifier
from resources.verifier.local import ClassifierVerifier
from resources.verifier.resource import VerifierResource
from resources.vllm.process import SharedServer
from resources.vllm.server import ServedAdapter, ServerFields, refuse_short_context, serve_adapter

if TYPE_CHECKING:
    from resources.chat.client import ChatClient

TRACE_REVISION = 1
"""Part of a policy's prompt hash. Raise it with any change of ``trace_procedure``, evidence view or
grammar that may change a verdict, a trace or a call: stored answers are then not reused."""
SILVER = "silver_decomposed"
_TRAINING = ("training_claims", "training_claims_random")
_ROOMS = {"single_call": (3_072, 0), "faithful": (2_048, 2_048)}
"""Tokens of a baseline's longest reply, and those that its later calls add, by its protocol."""
_TRACE_TOKENS = 4_500
_OPEN = ("open_models", "DECOMPOSERL_EVALUATION__BASE_URL")
_OWN = ("endpoint", "DECOMPOSERL_ENDPOINT__BASE_URL")
_PLACES = {"open": _OPEN, "policy": _OPEN, "openai": ("openai", ""), "endpoint": _OWN}
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
            ConfigError: the profile has no engine for it, or a policy or folder is missing.
            EngineMissing: its adapter is on the hub, and not on this machine.
        """
        port, locks = system.model.port, ModelLocks(models_lock(data.path))
        if port == "verifier" and system.model.requested != verifier.engine:
            wanted = f"the verifier {system.model.requested}; this profile has {verifier.engine}"
            raise ConfigError(f"system '{system.key}' needs {wanted}")
        entry = self._entry(system, data, three_way=three_way)
        wording = PromptSettings(entry.verdict_rule, entry.demonstrations)
        words, labels = entry.prompts or self.prompts_dir, labels_of(entry.verdict_rule)
        prompts, guard = MethodPrompts(words, settings=wording), ContextGuard(self.beyond_context)
        if port in {"rules", "verifier"}:
            weighs = verifier.open()
            by_rules = RuleChat(weighs, prompts) if port == "rules" else VerifierCaller(weighs)
            return opened_method(system, by_rules, data.path, guard, self.seed, labels)
        entry = self._loaded(entry, locks)
        if entry.method == TRACE:
            file = load_policy_prompt(entry.model, words, wording)
            prompts = MethodPrompts(given={POLICY: file})
        caller = self._caller(system, entry, prompts, locks, verifier)
        opened = OpenedSystem(system, scored, entry.method, caller, data.path, guard, entry.seed)
        if entry.method == TRACE:
            return _as_policy(opened, entry, replace(guard, file=file, model=entry))
        if entry.method == VERIFIER:
            opened.procedure = partial(scored, threshold=entry.threshold)
            opened.decomposes = False
            return opened
        reply, later = _ROOMS[system.protocol]
        file, room = prompts.file(METHODS[system.method].prompt), entry.max_tokens or reply
        guard = replace(guard, file=file, model=entry, room=room + later)
        opened = opened_method(system, caller, data.path, guard, entry.seed, labels)
        if own := {name: value for name, value in entry.overrides.items() if value is not None}:
            opened.procedure = _resampled(opened.procedure, entry)
            opened.settings = json.dumps(own, sort_keys=True)
        return opened

    def _entry(self, system: System, data: DataFolder, *, three_way: bool) -> SystemEntry:
        """The table of systems.toml that opens the system, as it stands there or would stand.

        With its recipe's values.
        """
        method, entry = METHODS.get(system.method), system.entry
        offers = method is not None and method.three_way
        changes: dict[str, object] = {}
        if entry is None:
            rule = THREE_WAY if three_way else self.verdict_rule
            rule = "evidence" if rule == THREE_WAY and not offers else rule
            entry = self._of_profile(system, data, rule)
        elif offers and three_way:
            changes["verdict_rule"] = THREE_WAY
        if entry.recipe:
            recipe = experiment(entry.recipe)
            own = {"verdict_rule": recipe.verdict_rule, "dtype": recipe.lora.dtype}
            changes |= {k: v for k, v in own.items() if k not in entry.model_fields_set}
        return entry.model_copy(update=changes)

    def _loaded(self, entry: SystemEntry, locks: ModelLocks) -> SystemEntry:
        """The entry with its adapter's folder, its device, and the commit that is loaded.

        The hub is asked for a commit that is neither locked nor cached.
        """
        changes, here = {"device": entry.device or self.device}, entry.place != "endpoint"
        if here and is_path(entry.model) and not Path(entry.model).exists():
            raise ConfigError(f"[{entry.name}] model: there is no folder {entry.model}")
        if here and entry.form != "classifier":
            changes["revision"] = locks.fetched(entry.model, entry.revision)
        if entry.adapter:
            changes["adapter"] = str(adapter_folder(entry))
        return entry.model_copy(update=changes)

    def _of_profile(self, system: System, data: DataFolder, rule: VerdictRule) -> SystemEntry:
        """The entry of a system of the catalogue; the values of its place are the profile's."""
        port, named = system.model.port, system.model.requested
        field, variable = _PLACES.get(port, ("", ""))
        place: Endpoint = getattr(self, field) if field else Endpoint()
        if port == "policy" and self.policies == "in_process":
            place = Endpoint(runs="in_process", revision=place.revision)
        if field and not (place.base_url or place.runs or place.model):
            hint = f": set {variable}" if variable else ""
            named = named or "your own model"
            raise ConfigError(f"no endpoint serves '{named}', and none is to be started{hint}")
        key_of(place)  # an error before anything is asked
        fields: dict[str, object] = {
            "name": system.key,
            "method": system.method,
            "protocol": system.protocol,
            "model": place.model or named,
            "verdict_rule": rule,
            "demonstrations": None if self.demonstrations < 0 else self.demonstrations,
        }
        if port == "policy":
            recipe = experiment(system.model.key)
            adapter, step = final_adapter(data, recipe.name)
            run = RunFolder(data.path / "policy" / recipe.name)
            # The commit that it was trained on; at an endpoint it is what the settings say.
            trained = "" if place.place == "endpoint" else recorded_in_config(run, "revision")
            fields = {
                "name": f"{recipe.name}-{step}",
                "method": TRACE,
                "model": base_of(data, recipe),
                "revision": trained or place.revision,
                "adapter": str(adapter.resolve()),
                "recipe": recipe.name,
                "thinking_style": place.thinking_style or "none",
            }
        served = port in {"open", "policy"} and not place.at_openai
        if place.continues is None and served:
            fields["continues"] = True
        listed = {"base_url": tuple(place.base_url), "served_as": tuple(place.served_as)}
        of_place = dict(place) | listed | {"seed": self.seed}
        return SystemEntry.model_construct(set(), **(of_place | fields))

    def _caller(
        self,
        system: System,
        entry: SystemEntry,
        prompts: MethodPrompts,
        locks: ModelLocks,
        profile: VerifierResource,
    ) -> MethodCaller:
        """What answers for an entry; a verifier cuts long evidence into chunks itself."""
        client = partial(self._client, system, entry)
        if entry.method == VERIFIER and entry.form == "classifier":
            local = ClassifierVerifier.of(entry, self.device, locks.cached)
            return VerifierCaller(StoredVerifier(local, self.stores()), entry.threshold)
        if entry.method == VERIFIER:
            own = {"allow_own": profile.allow_own_prompt}
            hosted = entry_verifier(entry, client, locks.cached, self.prompts_dir, **own)
            return VerifierCaller(hosted, entry.threshold, entry.price)
        if entry.writer:
            text = inline_prompt(entry.method, {QUESTIONS: entry.writer.user})
            words = MethodPrompts(given={entry.method: text}) if entry.writer.user else prompts
            plain = entry.model_copy(update={"decomposer": None})
            asked = (plain, prompts), (self._loaded(entry.writer, locks), words)
            return WithDecomposer(*(self._caller(system, *one, locks, profile) for one in asked))
        shared = {"seed": entry.seed, "top_logprobs": self.likeliest}
        if entry.place == "in_process":
            return LocalModel(entry, prompts, size=self.batch_size, **shared)
        continues = entry.runs in {"vllm", "server"}
        return ChatCaller(client(), entry, prompts, continues=continues, **shared)

    def _client(
        self, system: System, entry: SystemEntry, needed_context: int = 0, **options: bool
    ) -> "ChatClient":
        """The client of an entry's model, or of its adapter served on it.

        It opens no connection before its first request. An endpoint that reads fewer tokens than
        ``needed_context`` (by default those that are known of the model) is refused. ``options``
        are of ``ChatClient``. ``ConfigError``: it has no endpoint, and no command starts a server.
        """
        adapter, base = None, Path(entry.model)
        recorded = entry.revision if system.entry is None else entry.identity
        if not needed_context:  # a person's own endpoint may read fewer tokens than its model
            own = system.model.port == "endpoint"
            needed_context = entry.context if own else context_of(entry)
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

        def find_access() -> tuple[Sequence[str], SecretStr]:
            """The endpoints, the adapter loaded there, or the run's server where there are none."""
            secret = key_of(entry)  # first: without its key no server is started
            urls, key = entry.base_url or (self._shared.url(started),), secret.get_secret_value()
            for url in urls:
                refuse_short_context(url, entry, needed_context, key)
                if adapter:
                    serve_adapter(url, adapter, key)
            if adapter and not adapter.name.endswith(f"-{weights_digest(adapter.folder)}"):
                raise EngineError(f"{adapter.folder} was replaced while it was read: start again")
            return urls, secret

        return open_chat(
            entry.model_copy(update={"model": name, "thinking_style": entry.style}),
            self.results_dir,
            self._closers,
            find_access=find_access,
            find_revision=lambda: recorded,
            sent_as=adapter.name if adapter else "",
            **{"needs_logprobs": False, **options},
        )


def _as_policy(opened: OpenedSystem, entry: SystemEntry, guard: ContextGuard) -> OpenedSystem:
    """With the procedure of a policy, also of an entry that answers as one without adapter."""
    view, most, warm = None, _TRACE_TOKENS, 1.0
    if entry.recipe:
        recipe = experiment(entry.recipe)
        view, warm = recipe.evidence_view, recipe.sampling.temperature
        most = recipe.sampling.max_completion_tokens
    most = entry.max_tokens or most
    # Earlier versions drew samples; their settings stay in the key of stored predictions.
    seen = None if view is None else asdict(view)
    decoding = {"view": seen, "max_tokens": most, "samples": 0, "temperature": warm}
    # A policy's own name says which weights answer; its engine's name is of the recipe's step.
    decides = entry.overrides if opened.system.entry is not None else weights_name(entry)
    procedure = _resampled(trace_procedure(view, most), entry)
    return replace(
        opened,
        procedure=offering(labels_of(entry.verdict_rule), procedure),
        prompt=POLICY,
        guard=replace(guard, room=most, view=view),
        settings=json.dumps([decoding, decides], sort_keys=True),
        revision=TRACE_REVISION,
    )


def _resampled(procedure: Procedure, entry: SystemEntry) -> Procedure:
    """The procedure with the entry's temperature and token limit in its calls."""

    def changed(call: ModelCall) -> ModelCall:
        # Further samples of a call keep their own temperature.
        warm = call.temperature if call.sample or entry.temperature is None else entry.temperature
        return replace(call, temperature=warm, max_tokens=entry.max_tokens or call.max_tokens)

    return lambda given: through(procedure(given), lambda calls: tuple(map(changed, calls)))


def final_adapter(data: DataFolder, recipe: str) -> tuple[Path, int]:
    """The adapter of a recipe to evaluate and its step: the one that the run ended with.

    So no score is used to choose, and none is biased by the choice (the paper does not say). A
    checkpoint is evaluated by an entry of ``systems.toml`` that names it as its adapter.
    ``ConfigError``: the policy was not trained yet.
    """
    run = RunFolder(data.path / "policy" / recipe)
    if not run.outcome.is_file():
        raise ConfigError(
            f"{run.path} holds no trained policy. Train it first: decomposerl train {recipe}"
        )
    outcome = read_outcome(run)
    if outcome.adapter.is_dir():
        verified(outcome.adapter)
    return outcome.adapter, outcome.steps


def policy_facts(data: DataFolder, system: System) -> dict[str, str | int]:
    """Run metadata about the weights behind a policy's predictions; empty for other systems."""
    if system.model.port != "policy":
        return {}
    adapter, step = final_adapter(data, system.model.key)
    return {"adapter": str(adapter), "checkpoint": step}


def trace_procedure(view: EvidenceView | None, max_tokens: int) -> Procedure:
    """The procedure of a policy that reads a ``view`` of the evidence: one greedy trace."""

    def procedure(question: ClaimInput) -> Steps:
        evidence = question.evidence
        if view is not None:
            evidence = evidence_view(question.claim, evidence, view)
        variables = {"document": evidence, "claim": question.claim}
        greedy = ModelCall("procedure", "prompt", variables, max_tokens=max_tokens)
        (answer,) = yield from ask(greedy)
        trace = parse_trace(answer.text, answer.labels)
        opening, notes = trace.opening or "", {"faults": len(trace.faults)}
        return Verification.of_reply(trace.verdict, answer, trace.cycles, opening, notes=notes)

    return procedure


def leaks(
    data: DataFolder, training: str, benchmarks: Sequence[str], embedder: Embedder
) -> tuple[pl.DataFrame, int]:
    """Training claims that match a test claim (``DROPS``), and how many test claims there are.

    They are found by the three prongs of decontamination (paper, section 2) in the training set
    ``training``, with the thresholds of the funnel's last run.
    """
    claims = data.read(training, list(COMPARED))
    tests = pl.concat([data.read(f"benchmark/{name}", list(COMPARED)) for name in benchmarks])
    config = data.run("decontaminated")["config"]
    thresholds = DecontaminationSettings.model_validate_json(config)
    return decontaminate(claims, tests, thresholds, embedder).drops, tests.height


def dev_claims(data: DataFolder, system: System, count: int, seed: int) -> tuple[pl.DataFrame, str]:
    """At most ``count`` claims of the silver-decomposed pool that the system has not trained on.

    They are in no training set. For a policy, also as the adapter of an entry, they are neither
    among the claims that its run copied nor among the held-out claims that its checkpoint may have
    been chosen by. With the name of the split, as of ``dev_split``. ``ConfigError``: the pool was
    not materialized; ``EvaluationError``: every claim of it is used.
    """
    silver = read_required(data, SILVER)
    files = [*(data.file(name) for name in _TRAINING), *_claims_of_run(data, system)]
    used = [read_parquet(file, ["claim_id"])["claim_id"] for file in files if file.is_file()]
    claims, name = dev_split(silver, used, count, seed)
    if claims.is_empty():
        raise EvaluationError(
            f"none of the {silver.height:,} claims of {SILVER} is outside the training sets: "
            "there is nothing to calibrate on"
        )
    return claims, name


def _claims_of_run(data: DataFolder, system: System) -> list[Path]:
    """Claims that the run of a policy, or of an entry's adapter, trained and was evaluated on."""
    run, entry, policies = system.model.key, system.entry, (data.path / "policy").resolve()
    if system.model.port != "policy":
        parents = Path(entry.adapter if entry else "").resolve().parents
        runs = (recipe.name for recipe in EXPERIMENTS if policies / recipe.name in parents)
        if not (run := next(runs, "")):
            return []
    copies = inputs_of(data, experiment(run))
    if copies is None:  # runs of earlier versions recorded their held-out claims only
        return [notes_folder(data, run) / "held_out.parquet"]
    return [copies.claims, *([copies.held_out] if copies.held_out else [])]
