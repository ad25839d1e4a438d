"""The writer of silver questions as a Dagster resource: rules, or a chat model."""

from typing import Literal

from pydantic import Field

from resources.chat.endpoint import PromptedResource
from resources.decomposer.chat_engine import ChatDecomposer
from resources.decomposer.rule_engine import RuleDecomposer
from resources.store.prompts import AGAIN, load_prompt
from resources.store.resource import MappedResource
from resources.store.stored_ports import StoredDecomposer


class DecomposerResource(PromptedResource, MappedResource):
    """The writer of silver sub-questions."""

    batch_size: int = Field(default=1024, ge=1, description="pairs asked and stored at a time")
    engine: Literal["embedded", "chat"] = Field(
        default="embedded", description="rules on the claim's wording, or a chat model"
    )
    most_unanswered: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="share of claims without a reply above which the stage fails",
    )

    def open(self) -> StoredDecomposer | ChatDecomposer:
        """A fresh port; its ``calls`` and ``hits`` start at zero."""
        if self.engine == "embedded":
            return StoredDecomposer(
                RuleDecomposer(), self.stores(), self.batch_size, self.open_mapper()
            )
        return ChatDecomposer(
            self.chat(),
            load_prompt("silver", self.prompts_dir),
            self.sampling(),
            structured=self.endpoint.enforces_schemas,
            thinking=self.endpoint.thinks,
            most_unanswered=self.most_unanswered,
            again=load_prompt(AGAIN, self.prompts_dir),
            sends_temperature=self.endpoint.style != "openai",
            batch_size=self.batch_size,
        )
