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
_KINDS: dict[str, type[BaseModel]] = {
    "io_manager": ParquetTables,
    "data_folder": DataFolder,
    "corpora": CorporaResource,
    "chat_cache": ChatCacheFile,
    "tokens": TokensResource,
    "entities": EntitiesResource,
    "verifier": VerifierResource,
    "embedder": EmbedderResource,
    "question_embedder": EmbedderResource,
    "decomposer": DecomposerResource,
    "judge": JudgeResource,
    "policy_trainer": PolicyTrainerResource,
    "evaluation_model": EvaluationModelResource,
    "mapper": MapperResource,
}


def resources_for(settings: Settings, *, mapped: bool = False) -> dict[str, Any]:
    """The resources; ``mapped``: for whole tables, so batches run where the settings say."""
    at = parse_mapper(settings.machine.mapper, "mapper") if mapped else IN_PROCESS
    here = MapperChoice(where=at.where, workers=at.workers, address=at.address)
    shared = _shared(settings) | {"choice": here}
    own = _own(settings, here)
    made = {}
    for name, kind in _KINDS.items():
        values = shared | own.get(name, {})
        made[name] = kind(
            **{field: values[field] for field in kind.model_fields if field in values}
        )
    return made


def _shared(settings: Settings) -> dict[str, Any]:
    """What resources take by the names of their fields; a server sees no key of ours."""
    models = (settings.evaluation, settings.endpoint, *settings.served.values())
    keys = {model.key_variable for model in (*models, *entries_for(settings))} - {""}
    paths, machine = settings.paths, settings.machine
    server = {
        "vllm": list(machine.vllm),
        "cards": machine.cards,
        "withheld": sorted({*names_of_keys(), *keys} - _OF_THE_HUB),
    }
    return server | {
        "server": server,
        "base_dir": str(paths.data),
        "root": str(paths.corpora or ""),
        "sample_root": str(paths.data / "sample"),
        "results_dir": str(paths.results),
        "prompts_dir": paths.prompts,
        "models_lock": models_lock(paths.data),
        "heads": str(paths.data / FOLDER),
        "device": machine.device,
        "module": "dagster_project.worker",
    }


def _own(settings: Settings, here: MapperChoice) -> dict[str, dict[str, Any]]:
    """What a resource alone takes; batches run ``here``."""
    text, silver, judge = settings.text, settings.silver, settings.judge
    on_gpu = settings.machine.on_gpu
    # A model on a GPU has one of its own for each worker.
    workers = here.workers or int(on_gpu and here.where == "processes")
    of_models = here.model_copy(update={"workers": workers, "gpus": float(on_gpu)})

    def of_role(role: Role, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - of an endpoint
        """Every setting of a role that is not its endpoint's, and its endpoint."""
        fields = {name: value for name, value in role if name not in Endpoint.model_fields}
        changes["device"] = role.device or settings.machine.device
        fields["endpoint"] = config_of(role).model_copy(update=changes)
        hosted = {"mapper": MapperChoice(), "batch_size": _HOSTED_BATCH}
        local = {"mapper": here if fields["engine"] == "embedded" else of_models}
        return fields | (hosted if role.in_use else local)

    # A judge that never thinks has no room for a thought, and nothing to switch.
    room = 0 if judge.thinking == "off" else judge.thinking_tokens
    plain = {"thinking": "default", "thinking_tokens": room} if judge.style == "none" else {}
    questions = settings.questions if settings.questions.engine == "hosted" else settings.embedder
    thought = silver.thinking_tokens if silver.style == "openai" or silver.thinking == "on" else 0
    address = settings.training.jobs
    jobs = {"variables": job_variables(settings) if address else {}, "address": address}
    evaluated = {"open_models": settings.evaluation, "openai": settings.openai}
    evaluated |= {"endpoint": settings.endpoint}
    return {
        "tokens": {
            "engine": "tokenizer" if text.tokenizer else "embedded",
            "model": text.tokenizer,
            # Of one machine this process is enough: the tokenizer has a thread a core.
            "mapper": here if text.tokenizer and here.where == "ray" else MapperChoice(),
        },
        "entities": {
            "engine": "spacy" if text.spacy else "embedded",
            "models": list(text.spacy),
            "gpu": on_gpu,
            "mapper": of_models if text.spacy else here,
        },
        "verifier": of_role(settings.verifier),
        "embedder": of_role(settings.embedder),
        "question_embedder": of_role(questions),
        "decomposer": of_role(silver) | {"reply_tokens": _REPLY_TOKENS + thought},
        "judge": of_role(judge, **plain),
        "policy_trainer": dict(settings.training) | {"jobs": jobs | {"gpus": float(on_gpu)}},
        "evaluation_model": {name: config_of(role) for name, role in evaluated.items()}
        | {"policies": settings.evaluation.policies},
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
        "deduplicated": encodes,
        "decontaminated": encodes,
        "difficulty_band": engine == "minicheck_hosted" or (engine != "embedded" and on_gpu),
        "diversity_selected": encodes,
        "policy": on_gpu,
        "predictions": on_gpu or settings.evaluation.place == "server",
        "rule_filtered": on_gpu and bool(settings.text.spacy),
    }
    return {stage: "gpu" for stage, used in using.items() if used}
