"""The base of every group of settings in the domain.

Left out deliberately: the settings themselves; each stands beside the code it governs.
"""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A frozen group of settings; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
