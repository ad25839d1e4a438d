"""A run that configures one field of a resource keeps all other values of the profile."""

import functools
import os
from collections.abc import Iterator
from copy import deepcopy
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args, get_origin

import dagster as dg
import pytest
from pydantic import BaseModel

from dagster_project.definitions import build_definitions
from dagster_project.engine_choices import ProfileName
from dagster_project.profiles import Profile, profile_from_environment, resources_for
from resources.corpora.resource import CorporaResource
from resources.evaluation.model import NamedKey

Value = Any  # whatever a field of a resource holds
Path_ = tuple[str, ...]  # names of fields, outermost first
KEY = "secret5812"
KEYS = ("OPENAI_API_KEY", *(f"DECOMPOSERL_{role}_KEY" for role in "JUDGE EVALUATION".split()))
URLS = {f"DECOMPOSERL_{role}_URL": "http://127.0.0.1:9/v1" for role in "CHAT EVALUATION".split()}
OWN = {"DECOMPOSERL_ENDPOINT_URL": "http://127.0.0.1:8/v1", "DECOMPOSERL_ENDPOINT_MODEL": "mine"}


def resources(profile: str, folder: Path) -> dict[str, Any]:
    """The resources of a profile in which as much as possible differs from the classes."""
    environment = {
        "DECOMPOSERL_PROFILE": profile,
        "DECOMPOSERL_CORPORA": str(folder),
        "DECOMPOSERL_DATA": str(folder / "data"),
        "DECOMPOSERL_DEVICE": "cuda:1",
        "DECOMPOSERL_CHAT_PRICE": "1/2",
        "DECOMPOSERL_CHAT_DOLLARS": "3",
    }
    return resources_for(
        profile_from_environment(environment | URLS | OWN | dict.fromkeys(KEYS, KEY))
    )


def inside(values: dict[str, Any], path: Path_) -> Value:
    """The value at a path of field names."""
    for name in path:
        values = values[name]
    return values


def put(values: dict[str, Any], path: Path_, value: Value) -> None:
    """Set the value at a path, in dicts that are made where there are none."""
    *folders, last = path
    for name in folders:
        values = values.setdefault(name, {})
    values[last] = value


def another(annotation: Value, value: Value) -> Value:
    """A valid value that is not this one."""
    if get_args(annotation) == (NamedKey,):
        return [{"variable": "other", "value": "other"}]
    if isinstance(value, dict):
        return {"scifact": "rationales"}  # of LoadSettings.readings
    if get_args(annotation) and get_origin(annotation) is not list:
        return next(one for one in get_args(annotation) if one != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return type(value)(1 if value != 1 else 0.5 if isinstance(value, float) else 2)
    return ["other"] if isinstance(value, list) else "other"


def fields(kind: type[BaseModel], path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Each field that holds a plain value, at every depth, with its type."""
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, (*path, name))
        else:
            yield (*path, name), inner


def in_turn(kind: type[BaseModel]) -> list[list[tuple[Path_, Any]]]:
    """Every field once, at most one of each nested resource at a time."""
    parts: dict[str, list[tuple[Path_, Any]]] = {}
    for path, annotation in fields(kind):
        parts.setdefault(path[0] if len(path) > 1 else "", []).append((path, annotation))
    rows = zip_longest(*parts.values())
    return [[one for one in row if one is not None] for row in rows]


INSTANCE = dg.DagsterInstance.ephemeral()
CASES = [
    pytest.param(profile, name, chosen, id=f"{profile}-{name}-{number}")
    for profile in get_args(ProfileName)
    for name, resource in resources("embedded", Path.cwd()).items()
    for number, chosen in enumerate(in_turn(type(resource)))
]


def initialized(name: str, resource: Value, config: dict[str, Any] | None) -> dict[str, Any]:
    """The values of a resource as Dagster makes it for a run with this configuration of it."""
    given = None if config is None else {name: {"config": config}}
    with dg.build_resources({name: resource}, resource_config=given, instance=INSTANCE) as found:
        values: dict[str, Any] = getattr(found, name).model_dump()
    return values


@functools.cache
def unconfigured(profile: str, name: str) -> tuple[Value, dict[str, Any]]:
    """A resource of a profile, and its values in a run that configures nothing."""
    resource = resources(profile, Path.cwd())[name]
    return resource, initialized(name, resource, None)


@pytest.fixture(autouse=True, scope="module")
def keys() -> Iterator[None]:
    """Dagster reads keys from the environment of the run."""
    before = {name: os.environ[name] for name in KEYS if name in os.environ}
    os.environ.update(dict.fromkeys(KEYS, KEY))
    yield
    for name in KEYS:
        del os.environ[name]
    os.environ.update(before)


@pytest.mark.parametrize(("profile", "name", "chosen"), CASES)
def test_one_field_of_a_run_keeps_all_others_of_the_profile(
    profile: str, name: str, chosen: list[tuple[Path_, Value]]
):
    """For every profile, resource and field: the run has the profile's values and that one.

    One field of each nested resource at once: a field that changes another is seen all the same.
    """
    resource, whole = unconfigured(profile, name)
    config, expected = dict[str, Any](), deepcopy(whole)
    for path, kind in chosen:
        value = another(kind, inside(whole, path))
        put(config, path, value)
        put(expected, path, value)
    assert whole != expected
    assert expected == initialized(name, resource, config)


def test_a_key_is_found_and_never_shown(tmp_path: Path):
    """A nested key comes from its variable; the schema has the variable's name alone."""
    model = resources("paper", tmp_path)["evaluation_model"]
    some = initialized("evaluation_model", model, {"open_models": {"concurrency": 3}})
    assert (KEY, 3) == (some["open_models"]["api_key"], some["open_models"]["concurrency"])
    kind = model.get_resource_definition().config_schema.config_type
    shown = repr([field.default_value for field in kind.fields.values()])
    assert "DECOMPOSERL_EVALUATION_KEY" in shown
    assert KEY not in shown
    corpora = resources("embedded", tmp_path)["corpora"]
    for config in ({}, {"settings": {}}):  # an empty one is the profile's, at any depth
        assert initialized("corpora", corpora, None) == initialized("corpora", corpora, config)
    verifier = resources("paper", tmp_path)["verifier"]
    some = initialized("verifier", verifier, {"engine": "embedded", "batch_size": 512})
    expected = ("embedded", 512, verifier.model)
    assert expected == (some["engine"], some["batch_size"], some["model"]), "as without a profile"


def test_no_asset_takes_a_setting_that_it_does_not_have(tmp_path: Path):
    """Dagster refuses one in a wrong place; a run keeps the folder where it sets the rule alone."""
    graph = build_definitions(Profile("embedded", None, tmp_path)).resolve_asset_graph()
    nodes = (graph.get(key) for key in graph.materializable_asset_keys)
    schemas = {
        node.key.to_user_string(): node.assets_def.op.config_schema.as_field().config_type
        for node in nodes
    }
    assert [] == [key for key, kind in sorted(schemas.items()) if not isinstance(kind, dg.Shape)]

    given: list[CorporaResource] = []

    @dg.asset
    def reader(corpora: CorporaResource) -> None:
        given.append(corpora)

    dg.materialize(
        [reader],
        resources={"corpora": resources("embedded", tmp_path)["corpora"]},
        run_config={
            "resources": {"corpora": {"config": {"settings": {"label_rule": "middle_is_refuted"}}}},
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
        instance=INSTANCE,
    )
    assert (str(tmp_path), "middle_is_refuted") == (given[0].root, given[0].settings.label_rule)
