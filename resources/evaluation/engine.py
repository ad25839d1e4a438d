"""What answers for a system: a chat model at an endpoint or on a server, weights here, a verifier.

A system of the catalogue, an entry of ``systems.toml`` and a trained policy are one ``SystemEntry``
here, and each is answered by an ``EntryEngine``. Two systems share replies only where model and
recorded revision are the same: an entry without a revision has the addresses of its endpoint in
its place. Making a caller loads no weights, starts no server and makes no call.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, PrivateAttr, SecretStr

from decomposerl.baselines.method import ModelCall
from decomposerl.chat import Sampling
from decomposerl.endpoint import is_path
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.evaluation.entries import QUESTIONS, VERIFIER, SystemEntry
from decomposerl.evaluation.scored_claims import BeyondContext
from decomposerl.evaluation.systems import CONTEXTS
from decomposerl.prompts.minicheck import SAMPLING as MINICHECK_SAMPLING
from decomposerl.prompts.template import PromptFile, inline_prompt
from decomposerl.prompts.verifier import TOP_LOGPROBS, VerifierForm
from decomposerl.training.experiment import EvidenceView
from decomposerl.training.experiments import experiment
from resources.chat.endpoint import open_chat
from resources.evaluation.caller import HostedVerifierCaller, MethodCaller, Reply, VerifierCaller
from resources.evaluation.chat_caller import CallSettings, ChatCaller, MethodPrompts
from resources.evaluation.generation import ContextGuard, Details, Room, counter_of
from resources.evaluation.local_model import (
    Batching,
    LocalModel,
    Weights,
    context_of,
    weights_digest,
)
from resources.hub.access import cached_model
from resources.hub.adapters import ADAPTER_FILE
from resources.hub.locks import MAIN, ModelLocks
from resources.store.resource import StoredResource
from resources.store.stored_ports import StoredVerifier
from resources.tokens.word_tokens import CautiousTokens
from resources.verifier.chunks import ChunkTokens
from resources.verifier.classifier import ClassifierVerifier
from resources.verifier.minicheck_form import minicheck_form
from resources.verifier.own_chat import OwnChatVerifier
from resources.verifier.questions import claim_split_of
from resources.vllm.process import VllmServer
from resources.vllm.server import (
    PolicyAdapter,
    ServerFields,
    SharedServer,
    refuse_short_context,
    serve_adapter,
)

if TYPE_CHECKING:
    from resources.chat.client import ChatClient

_CONTEXT, _MARGIN = 32_768, 1_024  # tokens of a verifier by default, and kept for claim and prompt
_CLASSIFIER_CONTEXT, _CLASSIFIER_CHUNK = 512, 400
_WRITTEN = 1_024  # tokens of a verifier's reply whose text is read


class EnginesResource(StoredResource):
    """What the engines of a run's systems share."""

    server: ServerFields = Field(default=ServerFields(), description="how a server is started")
    device: str = Field(default="cpu", description="models in process: torch's name")
    batch_size: int = Field(default=16, ge=1, description="models in process: traces at once")
    likeliest: int = Field(
        default=5, ge=0, le=20, description="top log-probabilities per token of a verdict; 0: none"
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


@dataclass(frozen=True, slots=True)
class EntryEngine:
    """The engine of one entry, with what all systems of the resource share.

    ``identity`` is recorded where no loaded revision is known, ``continues`` whether its endpoint
    continues an assistant's turn unless the entry says so. ``context_setting`` is how its context
    is set, ``{}`` for the number, for messages alone. With ``whole_context`` a server that reads
    fewer tokens than its model is refused, else one that reads fewer than the entry's.
    """

    entry: SystemEntry
    model: EnginesResource
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
        refuse_missing_folder(entry)
        if entry.decomposer is not None:
            trained = entry.decomposer
            text = {entry.method: inline_prompt(entry.method, {QUESTIONS: trained.user})}
            words = MethodPrompts(given=text) if trained.user else prompts
            plain = replace(self, entry=entry.model_copy(update={"decomposer": None}))
            questions = replace(self, entry=trained, identity=trained.identity)
            return with_decomposer(plain.caller(prompts), questions.caller(words))
        if entry.place == "in_process":
            batching = Batching(model.batch_size, top_logprobs=model.likeliest, seed=entry.seed)
            return LocalModel(self.weights, prompts, batching), dict
        chat = self.client()
        caller = ChatCaller(
            chat,
            self.call_settings,
            prompts=prompts,
            claims_at_once=entry.concurrency,
            price=entry.price,
        )
        return caller, chat.details

    def verifier(self, prompts_dir: str, *, allow_own: bool) -> tuple[MethodCaller, Details]:
        """The caller of a verifier, which cuts long evidence into chunks itself.

        ``prompts_dir`` and ``allow_own`` are as for ``minicheck_form``.

        Raises:
            ConfigError: the folder of its model is missing.
        """
        refuse_missing_folder(self.entry)
        if self.entry.form == "classifier":
            return self._classifier()
        return self._hosted(prompts_dir, allow_own=allow_own)

    def guard(
        self,
        rule: BeyondContext,
        file: PromptFile,
        room: Room,
        view: EvidenceView | None = None,
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
        continues = self.continues or self.entry.place == "server"
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
        entry, adapter, loaded = self.entry, self._adapter(), self.entry.revision
        name = adapter.name if adapter else entry.model
        if not entry.base_url and not self.model.server.vllm:
            raise ConfigError(f"no endpoint serves '{name}', and none is to be started")
        if not entry.base_url:
            loaded = self.locks.fetched(entry.model, loaded)
        started = self.server(loaded, adapter)
        # Called after chat.close: waiting threads would start it again.
        self.model.closers.append(self.model.shared.stop)
        recorded = _recorded(entry, adapter, loaded or self.identity)
        return open_chat(
            entry.model_copy(update={"model": name, "thinking_style": entry.style}),
            self.model.results_dir,
            self.model.closers,
            find_urls=lambda key: self._urls(started, adapter, key, needed_context),
            find_revision=lambda: recorded,
            sent_as=adapter.served_name if adapter else "",
            needs_logprobs=needs_logprobs,
        )

    def server(self, revision: str, adapter: PolicyAdapter | None = None) -> VllmServer:
        """The server to start for its model, with its adapter where it has one."""
        fields = self.model.server.model_copy(update={"context": self.entry.context})
        return fields.vllm_server(self.entry.model, revision, adapter.words if adapter else ())

    def _urls(
        self,
        server: VllmServer,
        adapter: PolicyAdapter | None,
        key: SecretStr,
        needed_context: int,
    ) -> tuple[str, ...]:
        """The endpoints, the adapter loaded there, or the run's server where there are none."""
        urls = self.entry.base_url or (self.model.shared.url(server),)
        for url in urls:
            context = needed_context or self.entry.context
            if not context and self.whole_context:
                context = self._context(server.command.revision or MAIN)
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

    def _hosted(self, prompts_dir: str, *, allow_own: bool) -> tuple[MethodCaller, Details]:
        entry, settings, cached = self.entry, self.call_settings, self.locks.cached
        sampling = _verifier_sampling(entry, settings.room)
        most = sampling.max_tokens + _MARGIN  # beside the evidence
        context = entry.context or _CONTEXT
        chat = self.client(
            needs_logprobs=entry.read == "logprobs",
            needed_context=entry.context or min(context, (entry.chunk or context) + most),
        )
        verifier = OwnChatVerifier(
            chat,
            partial(_verifier_form, entry, sampling, prompts_dir, allow_own=allow_own),
            budget=entry.chunk or max(context - most, context // 4),
            tokens=ChunkTokens(entry.tokenizer, entry.model, entry.revision, cached),
            claim_split=claim_split_of(entry.model, entry.claim_split),
            score="raw" if entry.form == "minicheck" else entry.score,
            thinking=settings.thinking,
        )
        return HostedVerifierCaller(verifier, entry.threshold, entry.price), verifier.details

    def _classifier(self) -> tuple[MethodCaller, Details]:
        entry = self.entry
        verifier = ClassifierVerifier(
            entry.model,
            entry.revision or MAIN,
            inline_prompt(VERIFIER, {"pair": entry.pair}) if entry.pair else None,
            entry.supported_class,
            entry.chunk or _CLASSIFIER_CHUNK,
            entry.context or _CLASSIFIER_CONTEXT,
            claim_split_of(entry.model, entry.claim_split),
            entry.device or self.model.device,
            entry.dtype,
            self.locks.cached,
        )
        stored = StoredVerifier(verifier, self.model.stores())
        return VerifierCaller(stored, entry.threshold), stored.details


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


def with_decomposer(
    rest: tuple[MethodCaller, Details], decomposer: tuple[MethodCaller, Details]
) -> tuple[MethodCaller, Details]:
    """One caller of both, with the counts of both."""

    def details() -> Mapping[str, int | float | str]:
        return {**rest[1](), **{f"decomposer: {name}": n for name, n in decomposer[1]().items()}}

    return _WithDecomposer(rest[0], decomposer[0]), details


def _recorded(entry: SystemEntry, adapter: PolicyAdapter | None, revision: str) -> str:
    """The revision or file digest of the base, and the adapter's digest.

    So a model that was trained again, or on another base, has its own replies. Without an adapter
    a folder is read only where a server is started from it; an endpoint may have other files.
    """
    local = bool(adapter or not entry.base_url) and Path(entry.model).is_dir()
    base = weights_digest(Path(entry.model)) if local else revision
    return "+".join(part for part in (base, adapter.digest if adapter else "") if part)


def _verifier_form(
    entry: SystemEntry, sampling: Sampling, prompts_dir: str, *, allow_own: bool
) -> tuple[str, VerifierForm]:
    """A label of the prompt for the engine's name, and the form."""
    words = (entry.supported, entry.refuted, entry.read)
    if entry.form == "documents":
        form = VerifierForm(None, *words, sampling, entry.template or "{}")
        return f"documents {form.template}", form
    if entry.form == "minicheck":
        published = minicheck_form("chat", prompts_dir, allow_own=allow_own)
        return published.label, VerifierForm(published.prompt, sampling=sampling)
    prompt = inline_prompt(VERIFIER, {"system": entry.system, "user": entry.user})
    return f"prompt=entry@{prompt.digest[:12]}", VerifierForm(prompt, *words, sampling)


def _verifier_sampling(entry: SystemEntry, thought: int) -> Sampling:
    """One token with log probabilities, or a text, unless the entry says more.

    ``thought`` tokens are added where the model thinks first.
    """
    if entry.form == "minicheck":
        return replace(MINICHECK_SAMPLING, max_tokens=MINICHECK_SAMPLING.max_tokens + thought)
    spelled = entry.read == "text"
    return Sampling(
        temperature=entry.temperature or 0.0,
        seed=entry.seed,
        max_tokens=(entry.max_tokens or (_WRITTEN if spelled else 1)) + thought,
        top_logprobs=0 if spelled else TOP_LOGPROBS,
    )


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
