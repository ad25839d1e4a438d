"""The claim verifier as a Dagster resource: lexical, MiniCheck in process, MiniCheck on vLLM.

Opening imports no torch and starts no server: an engine loads its model with its first item. All
that is opened in a run shares one server.
"""

from functools import cache, partial
from typing import Literal

from pydantic import Field, PrivateAttr, SecretStr

from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import ClaimReading
from resources.chat.connection import key_of
from resources.chat.endpoint import EndpointConfig, config_of, open_chat
from resources.hub.locks import MODELS_LOCK, ModelLocks
from resources.store.resource import MappedResource
from resources.store.stored_ports import StoredVerifier
from resources.verifier.chunks import ChunkTokens, claim_split_of
from resources.verifier.hosted import HostedVerifier
from resources.verifier.lexical import LexicalVerifier
from resources.verifier.local import MODELS, LocalMiniCheck
from resources.verifier.minicheck_form import minicheck_form
from resources.vllm.process import ServerCommand, SharedServer
from resources.vllm.server import ServerFields


class VerifierResource(ServerFields, MappedResource):
    """The claim verifier."""

    batch_size: int = Field(default=512, ge=1, description="pairs asked and stored at a time")
    engine: Literal["embedded", "minicheck_local", "minicheck_hosted"] = Field(
        default="embedded",
        description="lexical features, MiniCheck in process, or its 7B model on vLLM",
    )
    endpoint: EndpointConfig = Field(
        default=config_of(Endpoint(model="bespokelabs/Bespoke-MiniCheck-7B")),
        description="minicheck_hosted: the model, on a started server without base_url; "
        "minicheck_local: revision, number type and device",
    )
    model_path: str = Field(
        default="", description="minicheck_local: model folder; empty for the cached one"
    )
    claim_split: ClaimReading = Field(
        default="own",
        description="MiniCheck: as the model's own code reads a claim (the 7B model its weakest "
        "sentence, the others the whole), or one of the two",
    )
    prompts_dir: str = Field(
        default="", description="MiniCheck: folder with a minicheck.md that holds its form"
    )
    allow_own_prompt: bool = Field(
        default=False,
        description="MiniCheck: whether this project's own text may stand in for the form that the "
        "model was trained on, where that is neither in prompts_dir nor installed",
    )
    minicheck: Literal["flan-t5-large", "deberta-v3-large", "roberta-large"] = Field(
        default="flan-t5-large", description="minicheck_local: which of the three"
    )
    models_lock: str = Field(
        default="", description=f"MiniCheck, unless at a running server: {MODELS_LOCK}"
    )
    tokenizer: str = Field(
        default="",
        description="minicheck_hosted: measures chunks, folder or hub name of a tokenizer.json, or "
        "'bytes'; empty: the model's own where it is on this machine, else bytes",
    )
    score: Literal["raw", "normalised"] = Field(
        default="raw", description="minicheck_hosted: mass of yes, or its share of yes and no"
    )
    vllm: list[str] = Field(default=["vllm", "serve"], description="first words to start one")
    context: int = Field(
        default=32_768, ge=0, description="tokens a started server reads; 0: the model's own limit"
    )
    prefix_caching: bool = Field(
        default=True, description="of a started server: it moves scores a little"
    )
    vllm_arguments: list[str] = Field(
        default=["--trust-remote-code", "--dtype", "bfloat16"],
        description="further words to start one",
    )

    _server: SharedServer = PrivateAttr(default_factory=SharedServer)

    def open(self) -> StoredVerifier | HostedVerifier:
        """A fresh port; its ``calls`` and ``hits`` start at zero.

        Raises:
            ConfigError: the embedded engine is given settings of a model.
        """
        if self.engine == "embedded":
            if self.endpoint.dtype != "float32" or self.model_path:
                raise ConfigError(
                    "the embedded verifier has no model: dtype and model_path are settings of "
                    "minicheck_local"
                )
            engine, size = LexicalVerifier(), self.batch_size
            return StoredVerifier(engine, self.stores(), size, self.open_mapper())
        if self.engine == "minicheck_local":
            local = LocalMiniCheck(
                self.minicheck,
                self.model_path,
                partial(minicheck_form, "pair", self.prompts_dir, allow_own=self.allow_own_prompt),
                revision=self.endpoint.revision or "main",
                device=self.endpoint.device or "cpu",
                dtype=self.endpoint.dtype,
                claim_split=claim_split_of(MODELS[self.minicheck].repo_id, self.claim_split),
                pin=ModelLocks(self.models_lock).cached,
            )
            return StoredVerifier(local, self.stores(), self.batch_size, self.open_mapper())
        return self._hosted()

    def _hosted(self) -> HostedVerifier:
        # Its requests switch no thinking, whatever the model is called.
        model = self.endpoint.model_copy(update={"thinking_style": "none"})
        shared, locks = self._server, ModelLocks("" if model.base_url else self.models_lock)
        self._closers.append(shared.stop)
        # Once each: a server is known by its object, and opening sends no request for a commit.
        revision = cache(lambda: locks.fetched(model.model, model.revision))
        server = cache(lambda: self.server(revision()))

        def access() -> tuple[tuple[str, ...], SecretStr]:
            key = key_of(model)  # first: without its key no server is started
            running = tuple(f"{url.removesuffix('/v1')}/v1" for url in model.base_url)
            return running or (shared.url(server()),), key

        options = {"find_revision": revision, "find_access": access}
        return HostedVerifier(
            open_chat(model, self.results_dir, self._closers, **options),
            claim_split=claim_split_of(model.model, self.claim_split),
            form=partial(minicheck_form, "chat", self.prompts_dir, allow_own=self.allow_own_prompt),
            tokens=ChunkTokens(self.tokenizer, model.model, model.revision, locks.cached),
            score=self.score,
            batch_size=self.batch_size,
        )

    def server(self, revision: str | None = None) -> ServerCommand:
        """The server of the 7B model that is started where it has no ``base_url``.

        ``revision`` is the one it loads, by default that of the settings.
        """
        model = self.endpoint
        caching = "--enable-prefix-caching" if self.prefix_caching else "--no-enable-prefix-caching"
        loaded = model.revision if revision is None else revision
        return self.command_for(model.model, loaded, [*self.vllm_arguments, caching])
