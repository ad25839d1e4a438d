"""The judge of the profiles: how it thinks, what its server gets, and the context it needs."""

import re
from pathlib import Path

import pytest

from dagster_project.engine_choices import engine_choices
from dagster_project.engine_resources import engine_resources
from decomposerl.errors import ConfigError
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.training.estimate import longest_judge_calls
from decomposerl.training.experiments import PAPER_7B
from documents import joined
from fault_server import Answer, FaultServer, replying
from project import ROOT

PAPER_LONGEST = 9_813
"""Tokens of the longest evidence that the paper trains on."""


THINKING = {
    "": ("max_tokens=1024 thinking=off", {"chat_template_kwargs": {"enable_thinking": False}}),
    "off": ("max_tokens=1024 thinking=off", {}),
    "on": ("max_tokens=8192 thinking=on", {"chat_template_kwargs": {"enable_thinking": True}}),
    "512": ("max_tokens=1536 thinking=512", {"thinking_token_budget": 512}),
    "default": ("max_tokens=8192 thinking=default", {}),
}


@pytest.mark.parametrize("word", THINKING)
def test_how_the_judge_thinks_is_a_variable(word: str, tmp_path: Path):
    """Off by default, bounded or free: in the engine's name and in what the server gets."""
    said, body = THINKING[word]
    change = replying("<answer>1</answer>").change | {"model": "Qwen/Qwen3-32B"}
    with FaultServer(usual=Answer(change=change)) as served:
        env = {"DECOMPOSERL_JUDGE_THINKING": word, "DECOMPOSERL_JUDGE_URL": served.url}
        resource = engine_resources(engine_choices("paper", env), str(tmp_path))["judge"]
        with resource.process_config_and_initialize_cm() as judge:
            port = judge.open()
            assert port.engine.endswith(said)
            call = JudgeCall("answerability", "It opened in 1921.", question="When?")
            assert [Ruling(True)] == port.judge([call])
        (asked,) = served.asked
    assert body == {name: asked.get(name) for name in body}
    assert ("thinking_token_budget" in asked) == (word == "512")


REFUSED = {
    "Qwen/Qwen3-32B": ["0", "-1", "much"],
    "meta-llama/Llama-3.3-70B-Instruct": ["on", "512"],
    "gpt-5-mini": ["512"],
}


def test_thinking_that_cannot_be_had_is_refused():
    """The variable and its value are named; other models keep their default."""
    for model, word in ((model, word) for model, words in REFUSED.items() for word in words):
        env = {"DECOMPOSERL_JUDGE_MODEL": model, "DECOMPOSERL_JUDGE_THINKING": word}
        with pytest.raises(ConfigError, match=f"DECOMPOSERL_JUDGE_THINKING is '{word}'"):
            engine_choices("paper", env)
    assert "off" == engine_choices("paper", {}).judge_thinking
    plain = engine_choices("paper", {"DECOMPOSERL_JUDGE_MODEL": "gpt-5-mini"})
    assert "default" == plain.judge_thinking


def test_a_model_that_never_thinks_gets_no_room_for_a_thought(tmp_path: Path):
    """Off: 1,024 tokens and nothing to switch, so that a small context holds the call."""
    for word, tokens in {"off": 1_024, "default": 8_192}.items():
        env = {"DECOMPOSERL_JUDGE_MODEL": "own/model", "DECOMPOSERL_JUDGE_THINKING": word}
        judge = engine_resources(engine_choices("paper", env), str(tmp_path))["judge"]
        assert ("default", tokens) == (judge.thinking, judge.sampling().max_tokens)


def test_whether_the_judges_server_enforces_schemas_is_a_variable(tmp_path: Path):
    """No by default, as other servers may only know tags; yes at OpenAI's."""
    openai = {"DECOMPOSERL_JUDGE_URL": "https://api.openai.com/v1"}
    yes, no = ({"DECOMPOSERL_JUDGE_STRUCTURED": word} for word in ("yes", "no"))
    for env, wanted in (({}, False), (yes, True), (openai, True), (openai | no, False)):
        judge = engine_resources(engine_choices("paper", env), str(tmp_path))["judge"]
        assert wanted == judge.structured


def test_the_judges_printed_commands_hold_the_longest_call():
    """The paper's longest evidence, a whole trace and a repeated reply fit each judge's context."""
    (need,) = longest_judge_calls(
        [PAPER_LONGEST], PAPER_7B.sampling.max_completion_tokens, 2 * 1_024
    )
    guide = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    lines = re.findall(r"^.*vllm serve Qwen/Qwen3-32B\S* .*--port 8000.*$", guide, re.MULTILINE)
    lengths = [int(re.findall(r"--max-model-len (\d+)", line)[0]) for line in lines]
    assert len(lengths) >= 3
    assert min(lengths) >= need
