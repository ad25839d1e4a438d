"""The judge behind the rewards as a Dagster resource: rules, a chat model, or a recorded table.

Opening imports neither openai nor torch and makes no calls.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field

from decomposerl.judge.call import Judge
from decomposerl.prompts.judge import JudgeSettings
from resources.chat.resource import PromptedResource
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.judge.replay import ReplayJudge
from resources.judge.rule_judge import RuleJudge
from resources.store.prompts import AGAIN, load_prompt


class JudgeResource(PromptedResource):
    """The judge (paper, section 3.2: a 32B model at temperature 0 with seed 42)."""

    batch_size: int = Field(default=1024, ge=1, description="calls asked and stored at a time")
    engine: Literal["embedded", "chat", "replay"] = Field(
        default="embedded", description="rules on words, a chat model, or recorded rulings"
    )
    folder: str = Field(default="", description="replay: folder of recorded rulings")
    reply_tokens: int = Field(default=4096, ge=1, description="chat: most of one reply")

    def open(self) -> Judge:
        """A fresh port; its ``calls`` and ``hits`` start at zero, where it has them.

        Raises:
            ConfigError: a prompt is missing or malformed.
        """
        if self.engine == "replay":
            return ReplayJudge(Path(self.folder))
        if self.engine == "embedded":
            return RuleJudge()
        return ChatJudge(
            self.chat(),
            load_judge_prompts(self.prompts_dir),
            JudgeSettings(self.sampling(), structured=self.structured, thinking=self.thinks),
            again=load_prompt(AGAIN, self.prompts_dir),
            sends_temperature=self.sends_temperature,
            batch_size=self.batch_size,
        )
