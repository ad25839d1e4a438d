"""The base class of the domain's settings."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A frozen group of settings; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
