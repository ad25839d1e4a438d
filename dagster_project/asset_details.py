"""What every asset shows besides its function, for all of them in one place.

Columns and their lineage, the file, the owners, kinds and tags, the code version, and whether it
may be made by itself. Tag ``cost`` is ``paid`` (an endpoint that bills), ``gpu``, ``by_system``
(that of the evaluated system) or ``free``.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import dagster as dg
from pydantic import BaseModel

from dagster_project.asset_columns import column_metadata
from dagster_project.code_reader import CodeReader
from dagster_project.code_versions import code_version, engine_facts
from dagster_project.engine_choices import EngineChoices
from decomposerl.claims.source import Corpus
from resources.catalogue.database import FILE
from resources.store.mirror import location

_OPENAI, _HUGGING_FACE = "openai", "huggingface"
_BY_SYSTEM = frozenset({"predictions", "calibrations"})
_FILLED = frozenset({"sources", "benchmarks", "catalog"})
"""Groups whose assets may be made by themselves: they cost nothing and need no GPU."""
FILL_MISSING = "fill_missing"


def detailed(
    assets: Sequence[dg.AssetsDefinition], details: "Details"
) -> list[dg.AssetsDefinition]:
    """The same assets with all that ``details`` knows about them."""
    made = [asset.map_asset_specs(partial(details.added_to, asset)) for asset in assets]
    details.code.keep()
    return made


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

    ``resources`` are the profile's by name, ``corpora`` those of the graph by asset key.
    """

    data: Path
    owners: Sequence[str]
    engines: EngineChoices
    resources: Mapping[str, object]
    corpora: Mapping[dg.AssetKey, Corpus]
    code: CodeReader

    def added_to(self, asset: dg.AssetsDefinition, spec: dg.AssetSpec) -> dg.AssetSpec:
        """The specification of ``asset`` with its details."""
        used = sorted(asset.required_resource_keys & set(self.resources))
        facts = engine_facts({name: self.resources[name] for name in used})
        if spec.key in self.corpora:
            facts["corpus"] = _plain(self.corpora[spec.key])
        columns = column_metadata(spec.key, [dep.asset_key for dep in spec.deps])
        shown = {"engines": dg.MetadataValue.json(_shown(facts))} if facts else {}
        return spec.replace_attributes(
            metadata={**spec.metadata, "dagster/uri": self._uri(spec), **columns, **shown},
            owners=list(self.owners),
            kinds={*spec.kinds, *self._kinds(used, columns)},
            tags={**_own_tags(spec), "cost": self._cost(asset, used)},
            code_version=code_version(asset, facts, self.code),
            automation_condition=(_once_where_missing() if spec.group_name in _FILLED else None),
        )

    def _uri(self, spec: dg.AssetSpec) -> str:
        """Its file, or the folder of its partitions."""
        name = spec.key.to_user_string()
        if name == "catalog":
            return location(self.data / FILE)
        table = "parquet" in spec.kinds and spec.partitions_def is None
        return location(self.data / f"{name}{'.parquet' * table}")

    def _kinds(self, used: Iterable[str], columns: Mapping[str, Any]) -> set[str]:
        """``polars`` for a table, and whose models are used, where that is known."""
        kinds = {"polars"} if columns else set()
        chosen = [str(getattr(self.resources[name], "engine", "")) for name in used]
        if any(engine.startswith(("minicheck", "sentence")) for engine in chosen):
            kinds.add(_HUGGING_FACE)
        return kinds | ({_OPENAI} if self._bills(used) else set())

    def _bills(self, used: Iterable[str]) -> bool:
        """Whether a resource sends requests to an endpoint that has a price or is OpenAI's."""
        engines = self.engines
        servers = {
            "verifier": engines.verifier_server,
            "embedder": engines.embedder_server,
            "question_embedder": engines.question_server,
            "decomposer": engines.chat_server,
            "judge": engines.judge_server,
        }
        found = (servers.get(name) for name in used)
        return any(one is not None and (one.needs_key or one.price is not None) for one in found)

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
