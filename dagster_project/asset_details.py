"""What every asset shows besides its function, for all of them in one place.

Columns, the file, kinds and tags, the code version, and whether it
may be made by itself. Tag ``cost`` is ``paid`` (an endpoint that bills), ``gpu``, ``by_system``
(that of the evaluated system) or ``free``.

Columns come from the tables that the IO manager checks (``decomposerl.schemas``), so that the
Columns tab has them before any run.

A code version has two parts, ``code.engines``: a hash of the files that decide the asset's result,
its own and those that they import; and one of the chosen engines: the revision that each declares,
the fields of their resources that decide an answer, and their prompts. Both only read files of
this project, so definitions load fast. Not part of it: the code of engines and stores, because an
engine whose answers change changes its name; and the commits of hub models, which the data folder
locks at the first use. All partitions of an asset share a version, so a method's new revision marks
the predictions of every system.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import dagster as dg
from pydantic import BaseModel

from dagster_project.settings import PROJECT
from decomposerl import schemas
from decomposerl.baselines.catalogue import SYSTEM_METHODS
from decomposerl.claims.source import Corpus
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineMissing, SchemaError
from decomposerl.table import Table
from decomposerl.training.studies import STUDIES
from resources.catalogue.database import FILE
from resources.decomposer.rule_engine import RuleDecomposer
from resources.embedder.minilm import MiniLM
from resources.entities.rule_engine import RuleEntities
from resources.evaluation.model import TRACE_REVISION
from resources.judge.rule_judge import RuleJudge
from resources.store.parquet import table_of
from resources.tokens.word_tokens import WordTokens
from resources.verifier.lexical import LexicalVerifier

_EMBEDDED: Mapping[str, Callable[[], str]] = {
    "tokens": lambda: WordTokens().unit,
    "entities": lambda: RuleEntities().engine,
    "verifier": lambda: LexicalVerifier().engine,
    "embedder": lambda: MiniLM().engine,
    "question_embedder": lambda: MiniLM().engine,
    "decomposer": lambda: RuleDecomposer().engine,
    "judge": lambda: RuleJudge().engine,
}
DECIDE = frozenset(
    (
        *("settings", "engine", "model", "models", "revision", "model_path", "minicheck", "dtype"),
        *("tokenizer", "instruction", "dimensions", "claim_split", "score", "allow_own_prompt"),
        *("structured", "thinking", "thinking_tokens", "bound_thinking", "temperature", "seed"),
        *("reply_tokens", "context", "prefix_caching", "vllm_arguments", "importance_correction"),
        *("most_cycles", "verdict_rule", "demonstrations", "beyond_context", "folder", "encoder"),
        *("adapter", "adapter_revision", "reasons"),
    )
)
"""Fields of the resources that decide an answer; the others say where, how fast, at what cost."""
_PROMPTS = {
    "decomposer": ("silver", "again", "question"),
    "verifier": ("minicheck",),
    "judge": ("answerability", "atomicity", "correctness", "coverage", "again", "question"),
    "policy_trainer": ("policy",),
}
_EVALUATED = "evaluation_model"
"""Its prompts are those of the methods: every other file."""
_LOADS = ("decomposerl.claims.load", "decomposerl.claims.generic")
_TRAINS = (
    "decomposerl.training.experiments",
    "decomposerl.judge.call",
    "decomposerl.rewards.scoring",
    "decomposerl.training.evidence_view",
)
_STEPS: Mapping[str, tuple[str, ...]] = {
    "rule_filtered": ("decomposerl.funnel.rules", "decomposerl.funnel.evidence"),
    "difficulty_band": ("decomposerl.funnel.difficulty",),
    "deduplicated": ("decomposerl.funnel.duplicates",),
    "decontaminated": ("decomposerl.funnel.decontamination",),
    "silver_decomposed": ("decomposerl.funnel.silver",),
    "diversity_selected": ("decomposerl.funnel.selection",),
    "training_claims": ("decomposerl.funnel.long_evidence",),
    "policy": _TRAINS,
    **{f"study/{one.name}": ("decomposerl.training.studies", *_TRAINS) for one in STUDIES},
}
"""The modules that decide a result beside the file of its asset, whose imports serve many assets,
or what runs in a process of its own."""
_FOLLOWED = ("assets", "decomposerl", "resources.catalogue", "resources.evaluation.model")
_APART = ("decomposerl.reports", "decomposerl.progress", "decomposerl.funnel.catalogue")
_ATTRITION = "decomposerl.reports.attrition"  # the one report that is an asset's table
_IMPORT = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|[^\n]+)", re.MULTILINE)


class CodeFiles:
    """The modules of this project in a folder, each read once.

    Imports are found by a pattern: Python's own parser would cost a second of each load.
    """

    def __init__(self, root: Path = PROJECT) -> None:
        """``root`` is this project's folder."""
        self._root = root
        self._text, self._imported = cache(self._read), cache(self._imports)

    def digest(self, own: str, roots: Iterable[str]) -> str:
        """8 hex digits over module ``own``, and ``roots`` with all modules that they import."""
        seen, waiting = {own}, {*roots}
        while waiting:
            module = waiting.pop()
            seen.add(module)
            waiting |= self._imported(module) - seen
        return short_digest(*(self._text(module) for module in sorted(seen)))

    def _read(self, module: str) -> str:
        base = self._root / module.replace(".", "/")
        files = (base.with_suffix(".py"), base / "__init__.py")
        return next((file.read_text("utf-8") for file in files if file.is_file()), "")

    def _imports(self, module: str) -> frozenset[str]:
        """What is imported of this project's domain; a name may be a module or stand in one."""
        named = (
            name
            for package, names in _IMPORT.findall(self._text(module))
            for name in (package, *(f"{package}.{word}" for word in re.findall(r"\w+", names)))
        )
        return frozenset(name for name in named if _follows(name) and self._text(name))


@cache
def this_code() -> CodeFiles:
    """Of this project; its files are read once for all profiles of a process."""
    return CodeFiles()


def _follows(module: str) -> bool:
    def within(packages: Iterable[str]) -> bool:
        return any(f"{module}.".startswith(f"{package}.") for package in packages)

    return within(_FOLLOWED) and (module == _ATTRITION or not within(_APART))


def short_digest(*parts: str) -> str:
    """8 hex digits of SHA-256."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def code_version(asset: dg.AssetsDefinition, facts: Mapping[str, object], code: CodeFiles) -> str:
    """The version of an asset with one key; ``facts`` are those of ``engine_facts``."""
    function: Any = asset.op.compute_fn
    own: str = function.decorated_fn.__module__
    written = json.dumps(facts, sort_keys=True, default=str)
    return f"{code.digest(own, _decided_by(asset.key) or [own])}.{short_digest(written)}"


def _decided_by(key: dg.AssetKey) -> Sequence[str]:
    folder, *name = key.path
    if folder not in {"claims", "benchmark"}:
        return _STEPS.get(key.to_user_string(), ())
    plain = "decomposerl.claims.sources.row_by_row"
    return [*_LOADS, plain, f"decomposerl.claims.sources.{name[0]}"]


def engine_facts(resources: Mapping[str, object]) -> dict[str, Any]:
    """What decides the answers of an asset's resources, by their names; the rest is left out."""
    every = {name: _facts(name, one) for name, one in sorted(resources.items())}
    if _EVALUATED in every:
        every["methods"] = {one.name: one.revision for one in SYSTEM_METHODS} | {
            "policy": TRACE_REVISION
        }
    return {name: facts for name, facts in every.items() if facts}


def _facts(name: str, resource: object) -> dict[str, Any]:
    parts = (resource, getattr(resource, "endpoint", None))
    facts = {
        field: getattr(part, field)
        for part in parts
        for field in sorted(DECIDE & set(getattr(type(part), "model_fields", ())))
    }
    if isinstance(parts[1], Endpoint):
        facts["structured"] = parts[1].enforces_schemas
    if facts.get("engine") == "embedded":
        with suppress(EngineMissing):  # not installed: nothing can have been made with it
            return {"engine": _EMBEDDED[name]()}
    if name in {*_PROMPTS, _EVALUATED}:
        facts["prompts"] = _prompts_digest(name, getattr(resource, "prompts_dir", ""))
    return facts


def _prompts_digest(name: str, folder: str) -> str:
    """Of a resource's prompt files, a user's in place of the project's."""
    shipped = sorted((PROJECT / "decomposerl/prompts").glob("*.md"))
    others = {path.stem for path in shipped} - {one for names in _PROMPTS.values() for one in names}
    wanted = set(_PROMPTS.get(name, others))
    own = [Path(folder) / path.name if folder else path for path in shipped]
    texts = [
        (mine if mine.is_file() else path).read_text("utf-8", "replace")
        for mine, path in zip(own, shipped, strict=True)
        if path.stem in wanted
    ]
    return short_digest(*texts)


_BESIDE = {"policy": schemas.CURVES}
"""Tables that an asset writes by itself, beside a result that is none."""


def column_metadata(key: dg.AssetKey) -> dict[str, Any]:
    """Definition metadata ``dagster/column_schema``; empty for an asset without a table."""
    name = key.to_user_string()
    try:
        table = _BESIDE.get(name) or table_of(name)
    except SchemaError:
        return {}
    return {"dagster/column_schema": column_schema(table)}


def column_schema(table: Table) -> dg.TableSchema:
    """A table as Dagster's schema; the columns that identify a row are a constraint."""
    columns = [
        dg.TableColumn(
            column.name,
            type=str(column.dtype),
            description=column.meaning,
            constraints=dg.TableColumnConstraints(
                nullable=column.nullable, unique=table.unique == (column.name,)
            ),
        )
        for column in table.columns
    ]
    rows = [f"unique: {', '.join(table.unique)}"] if table.unique else []
    return dg.TableSchema(columns=columns, constraints=dg.TableConstraints(other=rows))


_OPENAI, _HUGGING_FACE = "openai", "huggingface"
_BY_SYSTEM = frozenset({"predictions", "calibrations"})
_FILLED = frozenset({"sources", "benchmarks", "catalog"})
"""Groups whose assets may be made by themselves: they cost nothing and need no GPU."""
FILL_MISSING = "fill_missing"


def automation_sensor() -> dg.AutomationConditionSensorDefinition:
    """Off until it is switched on in the UI: makes sources, test sets and catalogue once each."""
    return dg.AutomationConditionSensorDefinition(
        FILL_MISSING,
        target=dg.AssetSelection.groups(*sorted(_FILLED)),
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Makes sources and test sets that were never made; attrition, chat replies and "
        "the catalogue follow when the funnel is on disk. Never a stage that costs money or a GPU.",
    )


def _once_where_missing() -> dg.AutomationCondition[dg.AssetKey | dg.AssetCheckKey]:
    """``on_missing``, also for what is missing when the sensor is switched on; a failure stays."""
    condition = dg.AutomationCondition
    missing = condition.missing()
    noticed = missing.newly_true() | condition.initial_evaluation()
    handled = condition.newly_requested() | condition.newly_updated()
    ready = missing & ~condition.any_deps_missing() & ~condition.in_progress()
    once: Any = noticed.since(handled) & ready
    return cast("dg.AutomationCondition[Any]", once.with_label("missing, once"))


@dataclasses.dataclass(frozen=True)
class Details:
    """What the details of an asset are made from.

    ``resources`` are the profile's by name, ``served`` the models of those at endpoints, and
    ``corpora`` those of the graph by asset key.
    """

    data: Path
    served: Mapping[str, Endpoint]
    resources: Mapping[str, object]
    corpora: Mapping[dg.AssetKey, Corpus]
    code: CodeFiles

    def added_to(self, asset: dg.AssetsDefinition, spec: dg.AssetSpec) -> dg.AssetSpec:
        """The specification of ``asset`` with its details."""
        used = sorted(asset.required_resource_keys & set(self.resources))
        facts = engine_facts({name: self.resources[name] for name in used})
        if spec.key in self.corpora:
            facts["corpus"] = _plain(self.corpora[spec.key])
        columns = column_metadata(spec.key)
        shown = {"engines": dg.MetadataValue.json(_shown(facts))} if facts else {}
        return spec.replace_attributes(
            metadata={**spec.metadata, "dagster/uri": self._uri(spec), **columns, **shown},
            kinds={*spec.kinds, *self._kinds(used, columns)},
            tags={**_own_tags(spec), "cost": self._cost(asset, used)},
            code_version=code_version(asset, facts, self.code),
            automation_condition=(_once_where_missing() if spec.group_name in _FILLED else None),
        )

    def _uri(self, spec: dg.AssetSpec) -> str:
        """Its file, or the folder of its partitions."""
        name = spec.key.to_user_string()
        if name == "catalog":
            return (self.data / FILE).absolute().as_uri()
        table = "parquet" in spec.kinds and spec.partitions_def is None
        return (self.data / f"{name}{'.parquet' * table}").absolute().as_uri()

    def _kinds(self, used: Iterable[str], columns: Mapping[str, Any]) -> set[str]:
        """``polars`` for a table, and whose models are used, where that is known."""
        kinds = {"polars"} if columns else set()
        chosen = [str(getattr(self.resources[name], "engine", "")) for name in used]
        if any(engine.startswith(("minicheck", "sentence")) for engine in chosen):
            kinds.add(_HUGGING_FACE)
        return kinds | ({_OPENAI} if self._bills(used) else set())

    def _bills(self, used: Iterable[str]) -> bool:
        """Whether a resource sends requests to an endpoint that has a price or is OpenAI's."""
        found = (self.served.get(name) for name in used)
        return any(one is not None and (one.at_openai or one.price) for one in found)

    def _cost(self, asset: dg.AssetsDefinition, used: Iterable[str]) -> str:
        if asset.key.path[0] in _BY_SYSTEM:
            return "by_system"
        if self._bills(used):
            return "paid"
        return "gpu" if asset.op.pool else "free"


def _own_tags(spec: dg.AssetSpec) -> dict[str, str]:
    """Its tags without those that Dagster makes of kinds."""
    return {name: value for name, value in spec.tags.items() if not name.startswith("dagster/kind")}


def _shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in facts.items() if name != "corpus"}


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Plain data in a stable order; a function becomes null."""
    if dataclasses.is_dataclass(value):
        named = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {name: _plain(one) for name, one in named.items()}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_plain(one) for one in value]
        return sorted(items, key=str) if isinstance(value, set | frozenset) else items
    return None if callable(value) else value
