"""How little one of OpenAI's reasoning models may be told to think.

Takes a model's name, gives the ``reasoning_effort`` it accepts: the o-series no less than
low, gpt-5 minimal, and gpt-5.1 and later none.

Left out deliberately: models whose least is not known here (pro, chat and codex variants,
later families). Asked to switch their thinking off, the client refuses; their own default
always works.
"""

import re

from decomposerl.errors import ConfigError

_DATE = r"(-\d{4}-\d{2}-\d{2})?"
_LEAST = {
    rf"(o1|o3|o3-mini|o4-mini){_DATE}": "low",
    rf"gpt-5(-mini|-nano)?{_DATE}": "minimal",
    rf"gpt-5\.[1-9]\d*(-mini|-nano)?{_DATE}": "none",
}
_ON = "medium"


def effort_of(model: str, *, thinking: bool) -> str:
    """The effort that switches a model's thinking on, or off as far as it goes.

    Raises:
        ConfigError: it is to be switched off, and what the model accepts is not known.
    """
    if thinking:
        return _ON
    for names, least in _LEAST.items():
        if re.fullmatch(names, model.rpartition("/")[2]):
            return least
    raise ConfigError(
        f"how to switch off the thinking of '{model}' is not known (it is for o1, o3, o4-mini, "
        "gpt-5 and gpt-5.1 with their mini and nano); leave thinking at its default"
    )
