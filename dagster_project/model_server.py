"""A model behind an endpoint, as plain values: never its key, only the key's variable."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from decomposerl.chat import Price
from decomposerl.reports.cost import Amount
from resources.chat.settings import ThinkingStyle, reasons, thinking_style_of

OPENAI = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Server:
    """A model behind an OpenAI-compatible endpoint.

    ``urls`` end in ``/v1``; without one, a vLLM server is started. ``variable`` is the variable of
    the URLs, ``key_variable`` that of their key. ``price`` is None where unknown. With
    ``continues``, the server can continue an assistant's message, as vLLM does.
    """

    model: str
    urls: tuple[str, ...]
    variable: str
    key_variable: str = OPENAI_KEY
    has_key: bool = False
    price: Price | None = None
    continues: bool = False

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint is OpenAI's, which always requires a key."""
        return any(urlsplit(url).hostname == urlsplit(OPENAI).hostname for url in self.urls)

    @property
    def unpriced(self) -> Amount | None:
        """What a call costs where nothing is published: dollars at OpenAI's endpoint, else time."""
        if self.price is not None:
            return None
        return "dollars" if self.needs_key else "gpu_hours"

    @property
    def reasons(self) -> bool:
        """Whether the model is an OpenAI reasoning model, by its name."""
        return reasons(self.model)

    @property
    def thinking_style(self) -> ThinkingStyle:
        """How the model's thinking is switched, by its name."""
        return thinking_style_of(self.model)
