"""The judge behind the rewards as a Dagster resource: rules, a chat model, heads, a recorded table.

Opening imports neither openai nor torch and makes no calls.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from decomposerl.chat import Sampling
from decomposerl.judge.call import Judge
from decomposerl.prompts.judge import JudgeSettings, Reasons
from resources.chat.endpoint import EndpointConfig, PromptedResource
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.judge.replay import ReplayJudge
from resources.judge.rule_judge import RuleJudge
from resources.judge.tiny_judge import TinyJudge, opened_judge

_ON_GPU = 131_072
"""Tokens that the tiny judge reads in one pass on a GPU, padding included."""


class JudgeResource(PromptedResource):
    """The judge (paper, section 3.2: a 32B model at temperature 0 with seed 42)."""

    endpoint: EndpointConfig = Field(
        default=EndpointConfig.model_validate({"thinking_tokens": 7_168}),
        description="chat: the model; tiny: its device",
    )
    batch_size: int = Field(default=1024, ge=1, description="calls asked and stored at a time")
    engine: Literal["embedded", "chat", "replay", "tiny"] = Field(
        default="embedded",
        description="rules on words, a chat model, recorded rulings, or trained classifiers",
    )
    folder: str = Field(default="", description="replay: folder of recorded rulings")
    heads: str = Field(default="", description="tiny: folder of the tiny judge's heads")
    reasons: Reasons = Field(
        default="full", description="chat: before a ruling, as the paper, one sentence, or none"
    )
    bound_thinking: bool = Field(
        default=False,
        description="chat: end the thought after thinking_tokens, as vLLM can with a reasoning "
        "parser, so that a ruling follows",
    )

    def sampling(self) -> Sampling:
        """As every request is sampled; a thought has tokens of its own."""
        thought = 0 if self.endpoint.thinks is False else self.endpoint.thinking_tokens
        return replace(super().sampling(), max_tokens=self.reply_tokens + thought)

    @property
    def most_tokens(self) -> int:
        """The largest token limit of a request: after a reply that was cut off it is doubled.

        A thinking Qwen3 is asked without its thinking instead.
        """
        silenced = self.endpoint.style == "qwen" and self.endpoint.thinks is not False
        return self.sampling().max_tokens * (1 if silenced else 2)

    def open(self) -> Judge:
        """A fresh port; its ``calls`` and ``hits`` start at zero, where it has them.

        Raises:
            ConfigError: a prompt is missing or malformed.
        """
        if self.engine == "replay":
            return ReplayJudge(Path(self.folder))
        if self.engine == "tiny":
            return self.tiny_judge(Path(self.heads))
        if self.engine == "embedded":
            return RuleJudge()
        model = self.endpoint
        bound = model.thinking_tokens if self.bound_thinking and model.thinks is not False else None
        return ChatJudge(
            self.chat(),
            load_judge_prompts(self.prompts_dir),
            JudgeSettings(
                self.sampling(), model.enforces_schemas, model.thinks, bound, self.reasons
            ),
            sends_temperature=model.style != "openai",
            batch_size=self.batch_size,
        )

    def tiny_judge(self, folder: Path) -> TinyJudge:
        """The tiny judge whose heads are in ``folder``, on this resource's device."""
        device = self.endpoint.device or "cpu"
        if device.startswith("cuda"):
            return opened_judge(folder, device, "bfloat16", _ON_GPU)
        return opened_judge(folder, device)
