"""Settings as Dagster resources, by the names that assets use.

A setting reaches the field of its name in the resource of its section. A resource has the name of a
key's variable and reads it when a request needs the key, so Dagster neither stores nor shows a key.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel

from dagster_project.environment import entries_for, job_variables, names_of_keys
from dagster_project.settings import Role, Settings
from decomposerl.endpoint import Endpoint
from resources.chat.endpoint import ChatCacheFile, EndpointConfig, config_of
from resources.corpora.resource import CorporaResource
from resources.decomposer.resource import DecomposerResource
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.evaluation.model import EvaluationModelResource
from resources.hub.locks import models_lock
from resources.judge.resource import JudgeResource
from resources.judge.tiny_judge import FOLDER
from resources.mapper import IN_PROCESS, parse_mapper
from resources.mapper.resource import MapperChoice, MapperResource
from resources.store.parquet import DataFolder, ParquetTables
from resources.tokens.resource import TokensResource
from resources.training.ray_jobs import TrainingJobs
from resources.training.resource import PolicyTrainerResource
from resources.verifier.resource import VerifierResource
from resources.vllm.server import ServerFields

_HOSTED_BATCH = 8_192  # a batch waits for its slowest request; replies are cached as they arrive
_REPLY_TOKENS = 1_024  # of a writer of questions, without its thought
_OF_THE_HUB = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}  # a started server downloads its model
Kind = TypeVar("Kind", bound=BaseModel)


def resources_for(settings: Settings, *, mapped: bool = False) -> dict[str, Any]:
    """The resources; ``mapped``: for whole tables, so batches run where the settings say."""
    paths, text = settings.paths, settings.text
    here, of_models = (_mapper(settings, mapped=mapped, model=model) for model in (False, True))
    shared = _shared(settings)

    def port(kind: type[Kind], role: Role, **own: Any) -> Kind:  # noqa: ANN401 - of a resource
        """The resource of a role, with every setting of the role that is not its endpoint's."""
        fields = {name: value for name, value in role if name not in Endpoint.model_fields}
        hosted = {"mapper": MapperChoice(), "batch_size": _HOSTED_BATCH}
        local = {"mapper": here if fields["engine"] == "embedded" else of_models}
        fields |= (hosted if role.in_use else local) | {"endpoint": _endpoint(settings, role)}
        return _made(kind, shared | fields, **own)

    questions, silver = settings.questions, settings.silver
    thinks = silver.style == "openai" or silver.thinking == "on"
    return {
        "io_manager": ParquetTables(base_dir=str(paths.data)),
        "data_folder": DataFolder(base_dir=str(paths.data)),
        "corpora": CorporaResource(
            root=str(paths.corpora or ""), sample_root=str(paths.data / "sample")
        ),
        "chat_cache": _made(ChatCacheFile, shared),
        "tokens": _made(
            TokensResource,
            shared,
            engine="tokenizer" if text.tokenizer else "embedded",
            model=text.tokenizer,
            # Of one machine this process is enough: the tokenizer has a thread a core.
            mapper=here if text.tokenizer and here.where == "ray" else MapperChoice(),
        ),
        "entities": _made(
            EntitiesResource,
            shared,
            engine="spacy" if text.spacy else "embedded",
            models=list(text.spacy),
            gpu=settings.machine.on_gpu,
            mapper=of_models if text.spacy else here,
        ),
        "verifier": port(VerifierResource, settings.verifier),
        "embedder": port(EmbedderResource, settings.embedder),
        "question_embedder": port(
            EmbedderResource, questions if questions.engine == "hosted" else settings.embedder
        ),
        "decomposer": port(
            DecomposerResource,
            silver,
            reply_tokens=_REPLY_TOKENS + (silver.thinking_tokens if thinks else 0),
        ),
        "judge": port(JudgeResource, settings.judge),
        "policy_trainer": _made(
            PolicyTrainerResource,
            shared | dict(settings.training) | {"jobs": _jobs(settings)},
            module="dagster_project.worker",
        ),
        "evaluation_model": evaluation_model(settings),
        "mapper": MapperResource(choice=here),
    }


def _jobs(settings: Settings) -> TrainingJobs:
    """Where training runs, with the variables that its process needs there."""
    address, on_gpu = settings.training.jobs, settings.machine.on_gpu
    variables = job_variables(settings) if address else {}
    return TrainingJobs(address=address, gpus=float(on_gpu), variables=variables)


def _shared(settings: Settings) -> dict[str, Any]:
    """What several resources have, by the names of their fields; a server sees no key of ours."""
    models = (settings.evaluation, settings.endpoint, *settings.served.values())
    keys = {model.key_variable for model in (*models, *entries_for(settings))} - {""}
    paths, machine = settings.paths, settings.machine
    return {
        "results_dir": str(paths.results),
        "prompts_dir": paths.prompts,
        "models_lock": models_lock(paths.data),
        "heads": str(paths.data / FOLDER),
        "device": machine.device,
        "vllm": list(machine.vllm),
        "cards": machine.cards,
        "withheld": sorted({*names_of_keys(), *keys} - _OF_THE_HUB),
    }


def _made(kind: type[Kind], values: dict[str, Any], **own: Any) -> Kind:  # noqa: ANN401 - of a resource
    """A resource with those of the values that it has a field for."""
    fields = {name: value for name, value in values.items() if name in kind.model_fields}
    return kind(**fields | own)


def _endpoint(settings: Settings, role: Role) -> EndpointConfig:
    """A model as its resource has it, on the device of this machine unless it names its own."""
    changes: dict[str, Any] = {"device": role.device or settings.machine.device}
    if role is settings.judge and role.style == "none":
        # One that never thinks has no room for a thought, and nothing to switch.
        room = 0 if role.thinking == "off" else role.thinking_tokens
        changes |= {"thinking": "default", "thinking_tokens": room}
    return config_of(role).model_copy(update=changes)


def _mapper(settings: Settings, *, mapped: bool, model: bool) -> MapperChoice:
    """Where batches run; a ``model`` on a GPU has one of its own for each worker."""
    at = parse_mapper(settings.machine.mapper, "mapper") if mapped else IN_PROCESS
    on_gpu = model and settings.machine.on_gpu
    workers = at.workers or int(on_gpu and at.where == "processes")
    return MapperChoice(where=at.where, workers=workers, address=at.address, gpus=float(on_gpu))


def evaluation_model(settings: Settings) -> EvaluationModelResource:
    """The models that are evaluated; a server is started where the settings say so."""
    shared = _shared(settings)
    return _made(
        EvaluationModelResource,
        shared | {"policies": settings.evaluation.policies},
        open_models=config_of(settings.evaluation),
        openai=config_of(settings.openai),
        endpoint=config_of(settings.endpoint),
        server=_made(ServerFields, shared),
    )


@contextmanager
def open_resources(settings: Settings, *names: str) -> Iterator[list[Any]]:
    """These resources as a run has them; what they start ends with the block."""
    resources = resources_for(settings)
    with ExitStack() as stack:
        ready = (resources[name].process_config_and_initialize_cm() for name in names)
        yield [stack.enter_context(opening) for opening in ready]


def pools_of(settings: Settings) -> dict[str, str]:
    """The pool of each asset that uses a GPU, here or through a server started for it."""
    engine, on_gpu = settings.verifier.engine, settings.machine.on_gpu
    encodes = on_gpu and settings.embedder.engine == "sentence_transformers"
    using = {
        "deduplicated": encodes,
        "decontaminated": encodes,
        "difficulty_band": engine == "minicheck_hosted" or (engine != "embedded" and on_gpu),
        "diversity_selected": encodes,
        "policy": on_gpu,
        "predictions": on_gpu or settings.evaluation.place == "server",
        "rule_filtered": on_gpu and bool(settings.text.spacy),
    }
    return {stage: "gpu" for stage, used in using.items() if used}
