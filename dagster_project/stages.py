"""The stages of the graph by name: its assets, and what each one reads.

A word of ``decomposerl run`` names an asset without partitions, such as ``claims/hover``, or a
group that has only such assets, such as ``funnel``. Selections of nothing and of the whole graph
are refused: Dagster starts every asset where a selection matches nothing, and a run of the whole
graph, which mixes partitioned and unpartitioned assets, is never intended.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.storage.tags import BACKFILL_ID_TAG

from decomposerl.errors import ConfigError

if TYPE_CHECKING:
    from dagster._core.definitions.assets.graph.asset_graph import AssetGraph


_ALIKE = 0.55
_COMMANDS = {
    "policy": "decomposerl train RECIPE",
    "predictions": "decomposerl evaluate SYSTEM",
    "scores": "decomposerl evaluate SYSTEM",
    "calibrations": "dagster job execute -m dagster_project.definitions -j calibrate",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """An asset: ``what`` is the first line of its description.

    ``upstream`` are the keys of all assets before it; it reads those in ``inputs`` as frames and
    fails without them.
    """

    key: str
    group: str
    what: str
    upstream: tuple[str, ...] = ()
    inputs: frozenset[str] = frozenset()
    partitioned: bool = False


Stages = Mapping[str, Stage]


def stages_of(definitions: dg.Definitions) -> Stages:
    """Every asset by key, in the order of the graph: what is upstream comes first."""
    graph = definitions.resolve_asset_graph()
    keys = [key for level in graph.toposorted_asset_keys_by_level for key in sorted(level)]
    nodes = [graph.get(key) for key in keys]
    stages = []
    for node in nodes:
        asset = node.assets_def
        kinds = asset.node_def.input_dict
        inputs = {
            parent.to_user_string()
            for name, parent in asset.keys_by_input_name.items()
            if not kinds[name].dagster_type.is_nothing
        }
        stages.append(
            Stage(
                key=node.key.to_user_string(),
                group=node.group_name,
                what=(node.description or "").partition("\n")[0],
                upstream=tuple(parent.to_user_string() for parent in sorted(node.parent_keys)),
                inputs=frozenset(inputs),
                partitioned=node.is_partitioned,
            )
        )
    return {stage.key: stage for stage in stages}


def groups_of(stages: Stages) -> dict[str, list[str]]:
    """The keys of each group without a partitioned asset."""
    mixed = {stage.group for stage in stages.values() if stage.partitioned}
    groups: dict[str, list[str]] = {}
    for stage in stages.values():
        if stage.group not in mixed:
            groups.setdefault(stage.group, []).append(stage.key)
    return groups


def stages_named(words: Sequence[str], stages: Stages) -> list[str]:
    """The keys that words name, each once.

    Raises:
        ConfigError: there is no word, or one names nothing; the message has the nearest names.
    """
    groups = groups_of(stages)
    if not words:
        names = [*groups, *groups.get("funnel", ())]
        raise ConfigError(f"name one or more stages, such as {', '.join(names)}")
    names = [*groups, *(key for key, stage in stages.items() if not stage.partitioned)]
    for word in words:
        if word in stages and stages[word].partitioned:
            command = _COMMANDS.get(word.partition("/")[0], "dagster asset materialize")
            raise ConfigError(f"'{word}' has partitions: use {command}")
        if word not in names:
            near = " or ".join(nearest(word, names))
            raise ConfigError(f"there is no stage '{word}'; the nearest is {near}")
    return list(dict.fromkeys(key for word in words for key in groups.get(word, [word])))


def missing_upstream(
    keys: Collection[str], stages: Stages, exists: Callable[[str], bool]
) -> dict[str, list[str]]:
    """Stages before ``keys`` that are not on disk, each with those that cannot run without it.

    What is before a stage on disk is not looked at; partitioned assets are left out. The order is
    that of ``stages``.
    """
    needed: dict[str, list[str]] = {}
    waiting, seen = list(keys), set(keys)
    while waiting:
        stage = stages[waiting.pop(0)]
        absent = [one for one in stage.upstream if one not in keys and not exists(one)]
        for one in (one for one in absent if not stages[one].partitioned):
            readers = needed.setdefault(one, [])
            readers += [stage.key] if one in stage.inputs else []
            waiting += [] if one in seen else [one]
            seen.add(one)
    return {key: needed[key] for key in stages if key in needed}


def condensed(keys: Collection[str], stages: Stages) -> str:
    """The keys for a sentence: a group in place of its members where all of them are there."""
    names = list(keys)
    for group, members in groups_of(stages).items():
        if set(members) <= set(names):
            names = [group, *(key for key in names if key not in members)]
    return ", ".join(names)


def nearest(word: str, names: Collection[str]) -> list[str]:
    """Up to three names like ``word``, at least the most similar one."""
    return get_close_matches(word, names, 3, _ALIKE) or get_close_matches(word, names, 1, 0)


_TERM = re.compile(r'(\w+):(?:"([^"]*)"|([^\s(),"=]+))(?:="[^"]*"|=[^\s(),"]+)?')  # tag:k="v"
_IMPLICIT = "__ASSET_JOB"  # Dagster's job behind every asset selection


def typed_selection(words: Sequence[str]) -> str | None:
    """The ``--select`` of a ``dagster asset materialize`` command line; None for any other."""
    if list(words[1:3]) != ["asset", "materialize"]:
        return None
    separate = [value for word, value in pairwise(words) if word == "--select"]
    joined = [word.partition("=")[2] for word in words if word.startswith("--select=")]
    return next(reversed([*joined, *separate]), None)


def refuse_unmatched(selection: str, definitions: dg.Definitions) -> None:
    """Refuse a selection of nothing, of everything, or with a term that matches nothing.

    Raises:
        ConfigError: the message has the nearest terms.
    """
    graph = definitions.resolve_asset_graph()
    for term in _TERM.finditer(selection):
        if not _resolve([term[0]], graph):
            near = " or ".join(_nearest(term[2] or term[3] or "", definitions))
            raise ConfigError(f"--select: {term[0]} matches no asset; the nearest is {near}")
    chosen = _resolve(selection.split(","), graph)
    if not chosen:
        raise ConfigError(f"--select: {selection} matches no asset; {_choices(definitions)}")
    if graph.materializable_asset_keys <= set(chosen):
        raise ConfigError(f"--select: {selection} is the whole graph; {_choices(definitions)}")


def _resolve(terms: list[str], graph: "AssetGraph") -> Collection[dg.AssetKey]:
    with warnings.catch_warnings():  # Dagster warns about its own parameter
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.AssetSelection.from_coercible(terms).resolve(graph)


def refuse_whole_graph(
    tables: dg.ConfigurableIOManager, definitions: Callable[[], dg.Definitions]
) -> dg.IOManagerDefinition:
    """The same IO manager, which refuses a run of the whole graph."""
    plain = tables.get_resource_definition()
    opened: Callable[..., dg.IOManager] = plain.resource_fn

    # Every run opens its IO manager before the first step, however it was started.
    def open_unless_whole(context: dg.InitResourceContext) -> dg.IOManager:
        if context.run is not None:
            _refuse_run(context.run, context.instance, definitions())
        return opened(context)

    return dg.IOManagerDefinition(open_unless_whole, plain.config_schema, tables.__doc__)


def _refuse_run(
    run: dg.DagsterRun, instance: dg.DagsterInstance | None, definitions: dg.Definitions
) -> None:
    if run.job_name != _IMPLICIT:
        return
    selected = run.asset_selection or run.asset_check_selection or run.resolved_op_selection
    every = definitions.resolve_asset_graph().materializable_asset_keys
    keys = set(run.asset_selection or ()) | _backfill_keys(run, instance)
    if not selected or keys >= every:
        raise ConfigError(f"this run selects the whole graph; {_choices(definitions)}")


def _backfill_keys(run: dg.DagsterRun, instance: dg.DagsterInstance | None) -> set[dg.AssetKey]:
    """The selection of the run's backfill: Dagster splits one of the whole graph into runs."""
    name = run.tags.get(BACKFILL_ID_TAG)
    backfill = instance.get_backfill(name) if instance is not None and name else None
    return set((backfill.asset_selection if backfill else None) or ())


def _choices(definitions: dg.Definitions) -> str:
    groups = sorted({term for _, term in _terms(definitions) if term.startswith("group")})
    return f'select some of it: {", ".join(groups)}, or a key such as key:"claims/hover"'


def _nearest(value: str, definitions: dg.Definitions) -> list[str]:
    """The terms whose value is most similar."""
    terms = list(_terms(definitions))
    values = sorted({value for value, _ in terms})
    near = nearest(value, values)
    return [term for match in near for other, term in terms if other == match]


def _terms(definitions: dg.Definitions) -> Iterator[tuple[str, str]]:
    """Each key, key prefix, group and kind, with the term that selects it."""
    graph = definitions.resolve_asset_graph()
    nodes = [graph.get(key) for key in sorted(graph.materializable_asset_keys)]
    for value in dict.fromkeys(node.key.to_user_string() for node in nodes):
        yield value, f'key:"{value}"'
    for value in dict.fromkeys(f"{node.key.path[0]}/*" for node in nodes if node.key.path[1:]):
        yield value, f'key:"{value}"'
    for value in dict.fromkeys(node.group_name for node in nodes if node.group_name):
        yield value, f'group:"{value}"'
    for value in sorted({kind for node in nodes for kind in node.kinds}):
        yield value, f'kind:"{value}"'
