"""The partitions of the evaluation: what the profile can run first, and the rest with a reason."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project.definitions import build_definitions
from dagster_project.profiles import profile_from_environment, resources_for
from decomposerl.baselines.catalogue import METHODS
from decomposerl.evaluation.systems import systems
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.offered import unavailable
from resources.evaluation.served_policy import ServedModels

KNOWN = {one.key: one for one in systems(METHODS, ["tiny"])}
OWN = '[mine]\nmethod = "simple"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
URL = "http://127.0.0.1:9/v1"


def offered(folder: Path, **environment: str) -> list[str]:
    """The partitions of a profile's predictions, in order."""
    profile = profile_from_environment({"DECOMPOSERL_DATA": str(folder), **environment})
    graph = build_definitions(profile).resolve_asset_graph()
    parts = graph.get(dg.AssetKey(["predictions", "fever"])).partitions_def
    assert parts is not None
    assert parts == graph.get(dg.AssetKey("calibrations")).partitions_def
    return list(parts.get_partition_keys())


def methods_of(keys: list[str]) -> list[str]:
    """The methods of systems in a list, each once for every group of it."""
    methods = [KNOWN[key].method for key in keys if key in KNOWN]
    return [one for place, one in enumerate(methods) if methods[place - 1 : place] != [one]]


def test_what_the_profile_can_run_is_offered_first(tmp_path: Path):
    """One's own entries, then rules by method; what needs a server comes last, by method too."""
    (tmp_path / "systems.toml").write_text(OWN, "utf-8")
    keys = offered(tmp_path)
    assert set(KNOWN) - {"decomposerl-tiny"} < set(keys)
    assert "mine" == keys[0]
    far = keys.index("simple-qwen2.5-3b-faithful")
    here = [key for key in keys[:far] if "-rules-" in key]
    assert [key for key in keys if "-rules-" in key] == here
    for part in (keys[:far], keys[far:]):
        assert len(set(methods_of(part))) == len(methods_of(part))


def test_a_server_moves_its_systems_to_the_front(tmp_path: Path):
    """And leaves the others where they were; none is gone."""
    before, after = offered(tmp_path), offered(tmp_path, DECOMPOSERL_EVALUATION_URL=URL)
    assert sorted(before) == sorted(after)
    served, own = (after.index(f"cot-{model}-faithful") for model in ("qwen2.5-7b", "endpoint"))
    assert served < after.index("qacheck-rules-faithful") < own


@pytest.mark.parametrize(
    ("key", "fields", "said"),
    [
        ("simple-rules-faithful", {}, ""),
        ("simple-qwen2.5-7b-faithful", {}, "set DECOMPOSERL_EVALUATION_URL"),
        ("simple-qwen2.5-7b-faithful", {"open_models": ServedModels(endpoints=[URL])}, ""),
        ("simple-qwen2.5-7b-faithful", {"open_models": ServedModels(vllm=["vllm"])}, ""),
        ("simple-endpoint-faithful", {}, "set DECOMPOSERL_ENDPOINT_URL"),
        (
            "simple-gpt-4.1-mini-faithful",
            {"openai": ServedModels(endpoints=[URL], key_variable="K")},
            "K is not set",
        ),
        (
            "simple-gpt-4.1-mini-faithful",
            {"openai": ServedModels(endpoints=[URL], key_variable="K", api_key="k")},
            "",
        ),
        ("minicheck-7b", {}, "needs the verifier minicheck_hosted; this profile has embedded"),
        ("minicheck-lexical", {}, ""),
        ("decomposerl-tiny", {}, ""),
        ("decomposerl-tiny", {"policies": "served"}, "set DECOMPOSERL_EVALUATION_URL"),
    ],
)
def test_the_reason_names_what_is_missing(
    key: str, fields: dict[str, Any], said: str, tmp_path: Path
):
    """Empty where the system may run."""
    model = EvaluationModelResource(results_dir=str(tmp_path), **fields)
    why = unavailable(model, "embedded", KNOWN[key])
    assert said in why
    assert bool(said) == bool(why)


def test_a_key_that_is_only_named_counts_as_missing(tmp_path: Path):
    """As in definitions, which hold the name of its variable."""
    profile = profile_from_environment({"DECOMPOSERL_DATA": str(tmp_path)})
    model = resources_for(profile)["evaluation_model"]
    missing = ServedModels(
        endpoints=[URL], key_variable="A", api_key=dg.EnvVar("DECOMPOSERL_NO_SUCH_KEY")
    )
    other = model.model_copy(update={"openai": missing})
    assert unavailable(other, "embedded", KNOWN["cot-gpt-4.1-mini-faithful"])
