"""Settings as Dagster resources, by the names that assets use.

A setting reaches the field of its name in the resource of its section. A resource has the name of a
key's variable and reads it when a request needs the key, so Dagster neither stores nor shows a key.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pydantic import BaseModel

from dagster_project.environment import entries_for, job_variables, names_of_keys
from dagster_project.settings import Role, Settings
from decomposerl.endpoint import Endpoint
from resources.chat.endpoint import ChatCacheFile, config_of
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
from resources.training.resource import PolicyTrainerResource
from resources.verifier.resource import VerifierResource

_HOSTED_BATCH = 8_192  # a batch waits for its slowest request; replies are cached as they arrive
_REPLY_TOKENS = 1_024  # of a writer of questions, without its thought
_OF_THE_HUB = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}  # a started server downloads its model


def resources_for(settings: Settings, *, mapped: bool = False) -> dict[str, Any]:
    """The resources; ``mapped``: for whole tables, so batches run where the settings say."""
    text, silver, evaluation = settings.text, settings.silver, settings.evaluation
    questions = settings.questions if settings.questions.in_use else settings.embedder
    shared, on_gpu, device = _shared(settings), settings.machine.on_gpu, settings.machine.device
    at = parse_mapper(settings.machine.mapper, "mapper") if mapped else IN_PROCESS
    here = MapperChoice(where=at.where, workers=at.workers, address=at.address)
    # A model on a GPU has one of its own for each worker.
    workers = here.workers or int(on_gpu and here.where == "processes")
    of_models = here.model_copy(update={"workers": workers, "gpus": float(on_gpu)})

    def made(kind: type[BaseModel], **own: Any) -> Any:  # noqa: ANN401 - any resource
        """The resource, with its own values and those of its fields that are shared."""
        return kind(**{k: v for k, v in (shared | own).items() if k in kind.model_fields})

    def of_role(role: Role) -> dict[str, Any]:
        """Its endpoint, its other settings by their names, and how its batches run."""
        fields = {name: value for name, value in role if name not in Endpoint.model_fields}
        fields["endpoint"] = config_of(role.model_copy(update={"device": role.device or device}))
        if role.in_use:
            return fields | {"mapper": MapperChoice(), "batch_size": _HOSTED_BATCH}
        return fields | {"mapper": here if fields["engine"] == "embedded" else of_models}

    return {
        "io_manager": made(ParquetTables),
        "data_folder": made(DataFolder),
        "corpora": made(CorporaResource),
        "chat_cache": made(ChatCacheFile),
        "tokens": made(
            TokensResource,
            engine="tokenizer" if text.tokenizer else "embedded",
            model=text.tokenizer,
            # Of one machine this process is enough: the tokenizer has a thread a core.
            mapper=here if text.tokenizer and here.where == "ray" else MapperChoice(),
        ),
        "entities": made(
            EntitiesResource,
            engine="spacy" if text.spacy else "embedded",
            models=list(text.spacy),
            mapper=of_models if text.spacy else here,
        ),
        "verifier": made(VerifierResource, **of_role(settings.verifier)),
        "embedder": made(EmbedderResource, **of_role(settings.embedder)),
        "question_embedder": made(EmbedderResource, **of_role(questions)),
        "decomposer": made(
            DecomposerResource,
            reply_tokens=_REPLY_TOKENS + silver.thought_tokens,
            **of_role(silver),
        ),
        "judge": made(JudgeResource, **of_role(settings.judge)),
        "policy_trainer": made(PolicyTrainerResource),
        "evaluation_model": made(
            EvaluationModelResource,
            open_models=config_of(evaluation),
            openai=config_of(settings.openai),
            endpoint=config_of(settings.endpoint),
            policies=evaluation.policies,
        ),
        "mapper": made(MapperResource, choice=here),
    }


def _shared(settings: Settings) -> dict[str, Any]:
    """What resources take by the names of their fields."""
    paths, machine, address = settings.paths, settings.machine, settings.training.jobs
    # A server sees no key: neither ours nor one that its name gives away, but the hub's.
    entries = [one for entry in entries_for(settings) for one in (entry, entry.writer) if one]
    models = (settings.evaluation, settings.endpoint, *settings.served.values())
    keys = {model.key_variable for model in (*models, *entries)}
    withheld = sorted((keys | names_of_keys()) - {"", *_OF_THE_HUB})
    server = {"vllm": list(machine.vllm), "cards": machine.cards, "withheld": withheld}
    jobs = {"address": address, "variables": job_variables(settings) if address else {}}
    return server | {
        **dict(settings.training),
        "jobs": jobs | {"gpus": float(machine.on_gpu)},
        "server": server,
        "base_dir": str(paths.data),
        "root": str(paths.corpora or ""),
        "sample_root": str(paths.data / "sample"),
        "results_dir": str(paths.results),
        "prompts_dir": paths.prompts,
        "models_lock": models_lock(paths.data),
        "heads": str(paths.data / FOLDER),
        "device": machine.device,
        "gpu": machine.on_gpu,
        "module": "dagster_project.worker",
    }


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
        **dict.fromkeys(("deduplicated", "decontaminated", "diversity_selected"), encodes),
        "difficulty_band": engine == "minicheck_hosted" or (engine != "embedded" and on_gpu),
        "policy": on_gpu,
        "predictions": on_gpu or settings.evaluation.place == "server",
        "rule_filtered": on_gpu and bool(settings.text.spacy),
    }
    return {stage: "gpu" for stage, used in using.items() if used}
