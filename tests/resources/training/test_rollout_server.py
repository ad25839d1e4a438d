"""The server that samples rollouts is started as TRL's client needs it."""

import re
import shlex
from itertools import pairwise

from trl.scripts.vllm_serve import ScriptArguments, build_command

from decomposerl.training.experiments import experiment
from project import ROOT


def options(words: list[str]) -> dict[str, str]:
    """The options of a command line, each with its value."""
    return {name: value for name, value in pairwise(words) if name.startswith("--")}


def test_the_page_starts_the_server_that_trl_asks_for():
    """TRL's own command line, with the recipe's model, context and seed; the rest is vLLM's."""
    page = (ROOT / "docs/running-on-gpus.md").read_text("utf-8")
    (line,) = [one for one in page.splitlines() if "--weight-transfer-config" in one]
    words = shlex.split(line)
    serve = words.index("serve")
    recipe = experiment("paper_7b")
    sampling = recipe.sampling
    script = ScriptArguments(
        model=words[serve + 1],
        host="127.0.0.1",
        port=8003,
        dtype=recipe.lora.dtype,
        max_model_len=sampling.max_prompt_tokens + sampling.max_completion_tokens,
    )
    asked = options(build_command(script, ["--seed", str(recipe.seed)]))
    shown = options(words)
    assert shown == {name: asked[name] for name in shown}
    bare = options(build_command(ScriptArguments(model=words[serve + 1])))
    defaults = set(bare) - {"--weight-transfer-config", "--logprobs-mode", "--max-logprobs"}
    assert set(asked) - set(shown) <= defaults
    assert recipe.model == words[serve + 1]
    assert "VLLM_SERVER_DEV_MODE=1" in words[:serve]


def test_no_page_has_a_deprecated_command():
    """``trl vllm-serve``, which TRL removes in its next major version, is no command to copy."""
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md"))]
    lines = [line for page in pages for line in page.splitlines()]
    assert [] == [line for line in lines if re.match(r"(\w+=\S+ )*trl vllm-serve", line)]
