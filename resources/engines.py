"""The engines behind the ports as Dagster resources, each with its memory.

A resource is a few settings and the name of an engine; ``open`` gives the port that assets
use. Constructing and opening import neither torch, spaCy nor openai and start no server:
an engine loads its model at its first item, so a run that finds every answer stored loads
none.

Left out deliberately: what the engines do (the modules named below), how results are
stored (``resources.results``), and which engine a profile takes (``dagster_project``).
"""

from typing import Literal

import dagster as dg
from pydantic import Field, SecretStr

from decomposerl.errors import ConfigError
from decomposerl.ports import Embedder
from resources.chat_decomposer import ChatDecomposer
from resources.embedded.lexical_verifier import LexicalVerifier
from resources.embedded.minilm import MiniLM
from resources.embedded.rule_decomposer import RuleDecomposer
from resources.embedded.rule_entities import RuleEntities
from resources.embedded.word_tokens import WordTokens
from resources.engine_settings import (
    ChatResource,
    KeyedResource,
    PromptedResource,
    StoredResource,
)
from resources.hosted_embeddings import HostedEmbedder
from resources.minicheck.chunk_tokens import ChunkTokens
from resources.minicheck.forms import StoredForms
from resources.minicheck.hosted import HostedMiniCheck
from resources.minicheck.local import LocalMiniCheck
from resources.model_tokens import ModelTokens
from resources.profile_defaults import ProfileDefaults
from resources.prompts import load_prompt
from resources.results import StoredDecomposer, StoredEmbedder, StoredEntities, StoredVerifier
from resources.sentence_embeddings import SentenceEmbedder
from resources.spacy_entities import SpacyEntities
from resources.token_counting import TalliedTokens
from resources.vllm_server import VllmServer

NumberType = Literal["float32", "bfloat16", "float16"]
_TEXTS_A_PROCESS = 8_192  # of spaCy's: to start one takes seconds, and each has its models


class TokensResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """The token counter. It is cheaper than reading a stored result, so none is kept."""

    engine: Literal["embedded", "tokenizer"] = Field(
        default="embedded", description="word-based estimate, or a model's own tokenizer"
    )
    model: str = Field(default="", description="tokenizer: folder or hub name of the policy")
    revision: str = Field(default="main", description="tokenizer: branch or commit")

    def open(self) -> TalliedTokens:
        """A fresh counter; its ``counted`` starts at zero."""
        if self.engine == "embedded":
            return TalliedTokens(WordTokens())
        return TalliedTokens(ModelTokens(self.model, self.revision))


class EntitiesResource(StoredResource):
    """The entity recogniser."""

    batch_size: int = Field(
        default=1024,
        ge=1,
        description="texts asked and stored at a time; more than one process takes at least 8,192 "
        "a process, because processes are started anew each time",
    )
    engine: Literal["embedded", "spacy"] = Field(
        default="embedded", description="spaCy blank pipeline with rules, or trained models"
    )
    models: list[str] = Field(default=[], description="spacy: package names or folders")
    processes: int = Field(default=1, ge=1, description="spacy: side by side, on the CPU")
    gpu: bool = Field(default=False, description="spacy: models on the GPU (needs cupy)")

    def open(self) -> StoredEntities:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        if self.engine == "embedded":
            return StoredEntities(RuleEntities(), self.store(), self.batch_size)
        models = SpacyEntities(tuple(self.models), processes=self.processes, gpu=self.gpu)
        return StoredEntities(models, self.store(), self.texts_at_a_time())

    def texts_at_a_time(self) -> int:
        """How many texts are asked and stored at a time."""
        if self.engine == "embedded" or self.processes == 1:
            return self.batch_size
        return max(self.batch_size, self.processes * _TEXTS_A_PROCESS)


class EmbedderResource(KeyedResource):
    """The embedder of claims and questions."""

    batch_size: int = Field(default=512, ge=1, description="texts asked and stored at a time")
    engine: Literal["embedded", "sentence_transformers", "hosted"] = Field(
        default="embedded", description="MiniLM on the CPU, any such model, or an endpoint"
    )
    model_path: str = Field(
        default="", description="embedded: model folder; empty for the installed wheel's"
    )
    dtype: NumberType = Field(
        default="float32", description="sentence_transformers: number type inside"
    )
    model: str = Field(default="", description="the others: hub name, folder, or as asked for")
    revision: str = Field(default="", description="the others: of the weights")
    device: str = Field(default="cpu", description="sentence_transformers: torch's name")
    instruction: str = Field(default="", description="the others: stands before every text")
    base_url: str = Field(default="", description="hosted: URL that ends in /v1")
    dimensions: int = Field(default=0, ge=0, description="hosted: shortened to; 0: as it is")
    in_flight: int = Field(default=8, ge=1, description="hosted: requests at once")

    def open(self) -> StoredEmbedder:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        return StoredEmbedder(self._embedder(), self.store(), self.batch_size)

    def _embedder(self) -> Embedder:
        if self.engine == "embedded":
            if self.dtype != "float32":
                raise ConfigError("the embedded embedder computes in float32; set dtype to it")
            return MiniLM(path=self.model_path)
        if self.engine == "sentence_transformers":
            return SentenceEmbedder(
                self.model,
                self.revision or "main",
                self.device,
                self.dtype,
                prompt=self.instruction,
            )
        return HostedEmbedder(
            self._checked_url,
            self.model,
            SecretStr(self.api_key),
            self.revision,
            self.dimensions,
            self.instruction,
            in_flight=self.in_flight,
        )

    def _checked_url(self) -> str:
        self.key()
        return self.base_url


class VerifierResource(ChatResource):
    """The claim verifier. The embedded one's sentence vectors are the stored MiniLM's."""

    batch_size: int = Field(default=512, ge=1, description="pairs asked and stored at a time")
    engine: Literal["embedded", "minicheck_local", "minicheck_hosted"] = Field(
        default="embedded",
        description="lexical and MiniLM features, MiniCheck in process, or its 7B model on vLLM",
    )
    model_path: str = Field(
        default="", description="in process: model folder; empty for the installed or cached one"
    )
    dtype: NumberType = Field(
        default="float32", description="minicheck_local: number type inside; embedded: float32"
    )
    claim_split: Literal["whole", "min_over_sentences"] = Field(
        default="whole", description="MiniCheck: the claim at once, or its weakest sentence"
    )
    prompts_dir: str = Field(
        default="", description="minicheck_hosted: folder of a minicheck.md of one's own"
    )
    minicheck: Literal["flan-t5-large", "deberta-v3-large", "roberta-large"] = Field(
        default="flan-t5-large", description="minicheck_local: which of the three"
    )
    device: str = Field(default="cpu", description="minicheck_local: torch's name")
    revision: str = Field(default="", description="MiniCheck: of the weights")
    model: str = Field(
        default="bespokelabs/Bespoke-MiniCheck-7B", description="minicheck_hosted: name or folder"
    )
    tokenizer: str = Field(
        default="",
        description="minicheck_hosted: measures chunks, folder or hub name of a tokenizer.json, or "
        "'bytes'; empty: the model's own where it is on this machine, else bytes",
    )
    score: Literal["raw", "normalised"] = Field(
        default="raw", description="minicheck_hosted: mass of yes, or its share of yes and no"
    )
    base_url: str = Field(
        default="", description="minicheck_hosted: a running server; empty: start one"
    )
    vllm: list[str] = Field(default=["vllm", "serve"], description="first words to start one")
    cards: int = Field(default=1, ge=1, description="cards of a server that is started")
    gpu_share: float = Field(default=0.9, gt=0, le=1, description="of each card's memory")
    context: int = Field(
        default=32_768, ge=0, description="tokens a started server reads; 0: the model's own limit"
    )
    prefix_caching: bool = Field(
        default=True,
        description="of a started server; of a running one say what it has: it moves scores a "
        "little, and is recorded with the stage",
    )
    vllm_arguments: list[str] = Field(
        default=["--trust-remote-code", "--dtype", "bfloat16"],
        description="further words to start one",
    )
    withheld: list[str] = Field(
        default=[], description="variables that a started server's environment lacks, as keys are"
    )
    start_timeout_s: float = Field(default=900, gt=0, description="until the server answers")
    log_dir: str = Field(default="", description="folder of server logs; empty: a temporary one")

    def open(self) -> StoredVerifier:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        if self.engine == "embedded":
            vectors = EmbedderResource(
                results_dir=self.results_dir, model_path=self.model_path, dtype=self.dtype
            ).open()
            return StoredVerifier(LexicalVerifier(vectors), self.store(), self.batch_size)
        if self.engine == "minicheck_local":
            local = LocalMiniCheck(
                self.minicheck,
                self.model_path,
                self.revision or "main",
                self.device,
                self.dtype,
                self.claim_split,
            )
            return StoredVerifier(local, self.store(), self.batch_size)
        return self._hosted()

    def _hosted(self) -> StoredVerifier:
        server = self.server()
        self._closers.append(server.stop)
        chat = self.late_chat(self.model, self.revision, lambda: (server.base_url(),))
        tokens = ChunkTokens(self.tokenizer, self.model, self.revision)
        engine = HostedMiniCheck(
            chat,
            claim_split=self.claim_split,
            tokens=tokens,
            prompt=load_prompt("minicheck", self.prompts_dir),
        )
        return StoredForms(
            engine,
            self.store(),
            self.batch_size,
            lambda: {**chat.details(), "prefix caching": int(self.prefix_caching)},
            score=self.score,
            story=server.death,
        )

    def server(self) -> VllmServer:
        """The server of the 7B model: the one at ``base_url``, or one of our own."""
        caching = "--enable-prefix-caching" if self.prefix_caching else "--no-enable-prefix-caching"
        return VllmServer(
            model=self.model,
            attach_to=self.base_url,
            api_key=self.api_key,
            key_name=self.key_name,
            executable=self.vllm,
            revision=self.revision,
            tensor_parallel_size=self.cards,
            max_model_len=self.context,
            gpu_memory_utilization=self.gpu_share,
            extra_arguments=[*self.vllm_arguments, caching],
            withheld=self.withheld,
            start_timeout_s=self.start_timeout_s,
            log_dir=self.log_dir,
        )


class DecomposerResource(PromptedResource):
    """The writer of silver sub-questions."""

    batch_size: int = Field(default=1024, ge=1, description="pairs asked and stored at a time")
    engine: Literal["embedded", "chat"] = Field(
        default="embedded", description="rules on the claim's wording, or a chat model"
    )
    most_unanswered: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="share of claims without a reply above which the stage fails",
    )

    def open(self) -> StoredDecomposer:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        if self.engine == "embedded":
            return StoredDecomposer(RuleDecomposer(), self.store(), self.batch_size)
        chat = self.chat()
        writer = ChatDecomposer(
            chat,
            load_prompt("silver", self.prompts_dir),
            self.sampling(),
            structured=self.structured,
            thinking=self.thinks,
            most_unanswered=self.most_unanswered,
            sends_temperature=self.sends_temperature,
        )
        stored = StoredDecomposer(writer, self.store(), self.batch_size, chat.details)
        writer.answered_before = lambda: stored.hits
        return stored
