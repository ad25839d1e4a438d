"""Refuse selections of nothing and of the whole graph.

Dagster starts every asset where a selection matches nothing, and a run of the whole graph mixes
partitioned and unpartitioned assets, so it is never intended: it is refused before its first step.
On the command line each single term of ``--select`` must match an asset.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.storage.tags import BACKFILL_ID_TAG

from dagster_project.stages import nearest
from decomposerl.errors import ConfigError

if TYPE_CHECKING:
    from dagster._core.definitions.assets.graph.asset_graph import AssetGraph

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
