"""Named entities by trained spaCy models, as in the paper (appendix "NER Grounding").

Gives each text's distinct normalised surface forms over the union of all models. The paper uses
``en_core_sci_lg`` and ``en_core_web_trf``, the ``local`` profile ``en_core_sci_sm`` and
``en_core_web_sm``. The order of the models does not matter.

A model is an installed package or a folder; its data are loaded, and no code of its package is run.
scispaCy's load with spaCy alone; the ``scispacy`` package is neither needed nor used
(``constraints-scispacy.txt`` is for those who want it: it needs a numpy below 2). Their packages
require a spaCy before 3.8, hence ``--no-deps``; spaCy 3.8 then warns that the model is old (W095).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.extras import install_command, require
from resources.entities.rule_engine import distinct_forms
from resources.hub.locks import digest_of

TRANSFORMERS = install_command("spacy-curated-transformers")
_SCISPACY = re.compile(r"en_(core_sci|ner)_(\w+)")
_SCISPACY_URL = "https://s3-us-west-2.amazonaws.com/ai2-s2-scispacy/releases/v{0}/{1}-{0}.tar.gz"
_SCISPACY_VERSION = "0.5.4"
_SPACYS_OWN = re.compile(r"[a-z]{2,3}_(core|dep|ent|sent)_(web|news|wiki|udv25\w*)_(sm|md|lg|trf)")
_QUOTED = {"True": True, "False": False}
FORMS = 1
"""Increment it when the union or the normalisation changes, to invalidate stored results."""

Span = tuple[int, int, str]
"""First character, one past the last, and the text between."""


@dataclass(frozen=True)
class SpacyEntities:
    """An ``EntityRecogniser``; each model is loaded at the first text.

    ``models`` are package names or folders. A model processes ``batch_size`` texts at a time in
    up to ``processes`` processes; transformers use one, which fills the device. ``gpu`` puts the
    models on the GPU (needs ``cupy``; one process).
    """

    models: tuple[str, ...]
    batch_size: int = 256
    processes: int = 1
    gpu: bool = False

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        if not self.models:
            raise ConfigError("spaCy entities need at least one model name")
        if self.batch_size < 1 or self.processes < 1:
            raise ConfigError("batch_size and processes of the spaCy entities must be at least 1")

    @cached_property
    def engine(self) -> str:
        """Version of spaCy, and each model's name and version.

        Raises:
            EngineMissing: spaCy or a model is not installed.
        """
        require("spacy")
        major, minor, *_ = version("spacy").split(".")
        labels = "+".join(SpacyModel(name).label for name in self.models)
        return f"spacy_entities:{FORMS}:spacy-{major}.{minor}:{labels}"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """Per text its distinct normalised surface forms, in order of first appearance.

        Raises:
            EngineMissing: spaCy, a model or the GPU library is not installed.
        """
        if not texts:
            return []
        spans_by_text: list[set[Span]] = [set() for _ in texts]
        for pipeline in self._pipelines:
            limited = (text[: pipeline.max_length] for text in texts)  # spaCy refuses longer ones
            docs = pipeline.pipe(
                limited, batch_size=self.batch_size, n_process=self._processes(pipeline, len(texts))
            )
            for spans, doc in zip(spans_by_text, docs, strict=True):
                spans.update((e.start_char, e.end_char, e.text) for e in doc.ents)
        return [distinct_forms([text for *_, text in sorted(spans)]) for spans in spans_by_text]

    def _processes(self, pipeline: Any, texts: int) -> int:  # noqa: ANN401 - spaCy's types are not imported here
        factories = (pipeline.get_pipe_meta(name).factory for name in pipeline.pipe_names)
        if self.gpu or any("transformer" in factory for factory in factories):
            return 1
        return min(self.processes, math.ceil(texts / self.batch_size))

    @cached_property
    def _pipelines(self) -> list[Any]:
        models = [SpacyModel(name) for name in self.models]
        _ = self.engine  # fails for a missing model before any is loaded
        if self.gpu:
            _use_gpu()
        return [model.load() for model in models]


def _use_gpu() -> None:
    import spacy

    try:
        spacy.require_gpu()
    except (ValueError, ImportError) as error:
        raise EngineMissing(
            "spaCy finds no usable GPU: pip install cupy-cuda12x (the number is your "
            "CUDA's), or leave gpu off"
        ) from error


@dataclass(frozen=True)
class SpacyModel:
    """``name`` is an installed package (which has precedence, as in spaCy) or a folder."""

    name: str

    @cached_property
    def label(self) -> str:
        """Name and version from the model's meta; for a folder also its content hash.

        Raises:
            EngineMissing: there is no such model.
        """
        label = f"{self._title}-{self._meta['version']}"
        return label if _package_folder(self.name) else f"{label}-{digest_of(self._folder)}"

    def load(self) -> Any:  # noqa: ANN401 - spaCy's types are not imported here
        """The pipeline with only the pipes that entities need.

        These write ``doc.ents`` or provide the vectors for it. The parser is off, as spaCy advises
        for entities: it would split entities at the sentence ends it finds.

        Raises:
            EngineMissing: spaCy, the model, or a package that the model needs is missing.
        """
        folder = self._folder
        require("spacy")
        missing = [need for need in self._meta.get("requirements", ()) if not _installed(need)]
        if missing:
            wanted = " ".join(f'"{need}"' for need in missing)
            raise EngineMissing(f"spaCy model '{self.name}' needs more: pip install {wanted}")
        import spacy

        config = spacy.util.load_config(folder / "config.cfg")
        try:
            pipeline = spacy.load(folder, config={"components": _unquoted(config["components"])})
        except ValueError as error:  # an unknown factory or architecture, an invalid configuration
            raise EngineMissing(
                f"spaCy cannot load '{self.name}'; if it is a transformer: {TRANSFORMERS}\n{error}"
            ) from error
        pipeline.select_pipes(enable=_entity_pipes(pipeline))
        return pipeline

    @cached_property
    def _folder(self) -> Path:
        package = _package_folder(self.name)
        if package is not None:
            meta = json.loads((package / "meta.json").read_text("utf-8"))
            return package / f"{package.name}-{meta['version']}"
        folder = Path(self.name)
        if not (folder / "meta.json").is_file():
            raise EngineMissing(f"spaCy model '{self.name}' is missing: {install_hint(self.name)}")
        return folder

    @cached_property
    def _meta(self) -> dict[str, Any]:
        return dict(json.loads((self._folder / "meta.json").read_text("utf-8")))

    @property
    def _title(self) -> str:
        return f"{self._meta['lang']}_{self._meta['name']}"


def install_hint(name: str) -> str:
    """The command that installs the model ``name``; for an unknown one, what is allowed."""
    if _SCISPACY.fullmatch(name):
        return f"pip install --no-deps {_SCISPACY_URL.format(_SCISPACY_VERSION, name)}"
    if _SPACYS_OWN.fullmatch(name):
        download = f"python -m spacy download {name}"
        return f"{TRANSFORMERS} && {download}" if name.endswith("_trf") else download
    return "it is neither an installed model package nor a folder with a meta.json"


def _package_folder(name: str) -> Path | None:
    spec = find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return folder if (folder / "meta.json").is_file() else None


def _installed(requirement: str) -> bool:
    name = re.match(r"[\w.-]+", requirement)
    try:
        return name is not None and bool(version(name.group()))
    except PackageNotFoundError:
        return False


def _unquoted(section: Mapping[str, Any]) -> dict[str, Any]:
    """Quoted booleans as booleans: scispaCy's models have them and spaCy 3.8 rejects them."""
    unquoted: dict[str, Any] = {}
    for name, value in section.items():
        inner = _unquoted(value) if isinstance(value, Mapping) else None
        if inner:
            unquoted[name] = inner
        elif isinstance(value, str) and value in _QUOTED:
            unquoted[name] = _QUOTED[value]
    return unquoted


def _entity_pipes(pipeline: Any) -> list[str]:  # noqa: ANN401 - spaCy's types are not imported here
    writers = [
        name for name in pipeline.pipe_names if "doc.ents" in pipeline.get_pipe_meta(name).assigns
    ]
    return [
        name
        for name, pipe in pipeline.pipeline
        if name in writers or set(getattr(pipe, "listening_components", ())) & set(writers)
    ]
