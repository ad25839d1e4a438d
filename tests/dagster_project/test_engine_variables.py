"""Variables of the engines: what each may hold, and the sentence where it holds something else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.engine_choices import EngineChoices, ProfileName, engine_choices
from dagster_project.engine_resources import engine_resources
from dagster_project.engine_variables import names_of_keys, price
from decomposerl.chat import Price
from decomposerl.errors import ConfigError
from project import ROOT
from resources.evaluation.model import EvaluationModelResource
from strategies import LAW

CANARY = "hidden7391"
ONE = "must be one such as http"
PLAIN = "user, password, query or fragment"
WRONG = [
    ("EVALUATION_CONTINUES", "maybe", "must be one of yes, no"),
    ("EVALUATION_POLICIES", "here", "must be one of served, in_process"),
    ("ENDPOINT_CONTINUES", "1", "must be one of no, yes"),
    ("CHAT_URL", "gpu:8000", "is not an http"),
    ("CHAT_URL", "ftp://gpu/v1", "is not an http"),
    ("CHAT_URL", "http:///v1", "is not an http"),
    ("CHAT_URL", "http://[::1/v1", ONE),
    ("CHAT_URL", "http://127.0.0.1:abc/v1", ONE),
    ("CHAT_URL", "http://127.0.0.1:99999/v1", ONE),
    ("CHAT_URL", f"http://me:{CANARY}@gpu:8000", PLAIN),
    ("CHAT_URL", f"http://me:{CANARY}/x@gpu:8000", ONE),
    ("CHAT_URL", f"http://{CANARY}@gpu:8000", PLAIN),
    ("CHAT_URL", f"http://gpu/v1?api_key={CANARY}", PLAIN),
    ("CHAT_URL", f"http://gpu/v1,http://gpu/v1#{CANARY}", PLAIN),
    ("VERIFIER_URL", f"http://gpu/v1?api_key={CANARY}", PLAIN),
    ("CHAT_URL", ",", "names no URL"),
    ("EMBEDDER_URL", " , ", "names no URL"),
    ("VERIFIER_URL", ",", "names no URL"),
    ("EMBEDDER_URL", "http://a/v1,http://b/v1", "names 2 URLs; it must be exactly one"),
    ("VERIFIER_URL", "http://a/v1,http://b/v1", "names 2 URLs; it must be exactly one"),
    ("CHAT_PRICE", "cheap", "prompt/completion"),
    ("CHAT_PRICE", "-1", "0 or more"),
    ("CHAT_PRICE", "1/nan", "0 or more"),
    ("CHAT_PRICE", "inf", "0 or more"),
    ("CHAT_PRICE", "1/2/3", "prompt/completion"),
    ("CHAT_PRICE", "/", "prompt/completion"),
    ("CHAT_DOLLARS", "-1", "0 or more"),
    ("CHAT_DOLLARS", "nan", "0 or more"),
    ("VLLM", " ", "names no program; it must be a command such as: vllm serve"),
    ("VLLM", "env X=1", "names no program"),
    ("VLLM_CARDS", "two", "whole number of 1 or more"),
    ("VLLM_CARDS", "0", "whole number of 1 or more"),
    ("VLLM_CARDS", "1.5", "whole number of 1 or more"),
    ("MAPPER", "threads", "in_process, processes, processes:N, ray or ray:HOST:PORT"),
    ("MAPPER", "processes:0", "processes:N"),
    ("MAPPER", "ray:10.0.0.1", "with the port of the cluster's head"),
    ("TRAINING_JOBS", "10.0.0.1:8265", "is not an http(s) URL"),
    ("DEVICE", "gpu", "cpu, mps, cuda, or cuda:N"),
    ("DEVICE", "cuda:", "cpu, mps, cuda, or cuda:N"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG)
def test_what_a_variable_cannot_mean_is_one_sentence(name: str, value: str, sentence: str):
    """It names the variable and what would be right, and repeats no part of a URL."""
    with pytest.raises(ConfigError) as refused:
        engine_choices("paper", {f"DECOMPOSERL_{name}": value})
    said = str(refused.value)
    assert said.startswith(f"DECOMPOSERL_{name} ")
    assert sentence in said
    assert "\n" not in said
    assert CANARY not in said
    assert refused.value.__cause__ is None or not name.endswith("_URL")


def test_the_doctor_and_the_definitions_say_the_same_sentence(tmp_path: Path):
    """The first ends with code 2 and that line alone; loading ends with it, without the secret."""
    wrong = {
        "DECOMPOSERL_PROFILE": "paper",
        "DECOMPOSERL_CHAT_URL": f"http://127.0.0.1:8000/v1?api_key={CANARY}",
    }
    result = CliRunner(env=dict(wrong)).invoke(app, ["doctor", "--data", str(tmp_path)])
    assert 2 == result.exit_code
    (line,) = result.output.strip().splitlines()
    loaded = subprocess.run(
        [sys.executable, "-c", "import dagster_project.definitions"],
        cwd=ROOT,
        env=os.environ | wrong,
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.stderr.strip().endswith(line)
    assert CANARY not in result.output + loaded.stderr


def test_two_chat_endpoints_are_two(tmp_path: Path):
    """The chat model alone is asked at several places; a slash at the end means nothing."""
    chosen = engine_choices("local", {"DECOMPOSERL_CHAT_URL": " http://a/v1/ ,https://[::1]:8/v1,"})
    assert chosen.chat_server is not None
    assert ("http://a/v1", "https://[::1]:8/v1") == chosen.chat_server.urls
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda", "cuda:0", "cuda:11"])
def test_torchs_names_are_devices(device: str):
    """As torch spells them."""
    assert device == engine_choices("local", {"DECOMPOSERL_DEVICE": device}).device


@LAW
@given(st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_a_price_is_read_as_it_was_written(prompt: float, completion: float | None):
    """One amount or two; a completion that is not named costs nothing."""
    said = f"{prompt!r}" if completion is None else f"{prompt!r} / {completion!r}"
    assert Price(prompt, completion or 0.0) == price({"P": said}, "P")


def test_names_that_end_in_key_are_keys():
    """``HF_TOKEN`` and words that merely begin so are not."""
    names = ("KEY", "OPENAI_API_KEY", "MY_KEY", "HF_TOKEN", "KEYBOARD", "MONKEY", "my_key")
    assert ("KEY", "MY_KEY", "OPENAI_API_KEY", "my_key") == names_of_keys(dict.fromkeys(names, "x"))
    env = {"A_KEY": "1", "PATH": "/bin"}
    assert ("A_KEY",) == engine_choices("paper", env).withheld


def test_a_started_server_sees_no_key_of_an_entry():
    """Whatever the variable's name; the hub's is how it downloads its model."""
    made = engine_resources(EngineChoices(withheld=("A_KEY",)), "r", "", ["HF_TOKEN", "MY_TOKEN"])
    assert ["A_KEY", "MY_TOKEN"] == made["evaluation_model"].entries.withheld


URL = "http://127.0.0.1:8004/v1"
OPENAI = "https://api.openai.com/v1"


def asked(name: ProfileName, **variables: str) -> EvaluationModelResource:
    env = {f"DECOMPOSERL_{key}": value for key, value in variables.items()}
    found: EvaluationModelResource = engine_resources(engine_choices(name, env), "r")[
        "evaluation_model"
    ]
    return found


@pytest.mark.parametrize("name", ["local", "paper"])
def test_policies_are_served_where_open_models_are(name: ProfileName):
    """At the URL that a person names, or on the server that is started; a variable overrules it."""
    assert "served" == asked(name, EVALUATION_URL=URL).policies
    assert [URL] == asked(name, EVALUATION_URL=URL).open_models.endpoints
    assert ("served" if name == "paper" else "in_process") == asked(name).policies
    here = asked(name, EVALUATION_URL=URL, EVALUATION_POLICIES="in_process")
    assert "in_process" == here.policies
    assert "served" == asked(name, EVALUATION_POLICIES="served").policies
    assert "in_process" == asked("embedded").policies


def test_a_row_is_asked_in_one_form_wherever_its_server_comes_from():
    """A vLLM goes on from a turn, named or started; a person's own endpoint where they say so."""
    for found in (asked("paper"), asked("paper", EVALUATION_URL=URL), asked("local")):
        assert found.open_models.continues
    assert not asked("paper", EVALUATION_URL=URL, EVALUATION_CONTINUES="no").open_models.continues
    assert not asked("paper", EVALUATION_URL=OPENAI).open_models.continues
    assert not asked("paper").openai.continues
    own = {"ENDPOINT_URL": URL, "ENDPOINT_MODEL": "m"}
    assert not asked("paper", **own).endpoint.continues
    assert asked("paper", **own, ENDPOINT_CONTINUES="yes").endpoint.continues
