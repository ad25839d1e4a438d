"""Keys that a header can carry, and addresses that no proxy may see.

Takes keys and addresses; gives clean keys, texts without them, and whether an address is
this machine's own: calls to it, and the key in them, never go through a proxy.

Left out deliberately: the connections (``resources.chat.endpoints``).
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import SecretStr

from decomposerl.errors import ConfigError

NO_KEY = "none"
"""The openai package wants a key, a local server does not."""
_SHORTEST_KEY = 6  # a shorter one is a placeholder such as "none", and part of many words


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own; a proxy must see neither call nor key."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def clean_key(key: SecretStr | None) -> SecretStr | None:
    """The key without white space around it, None where nothing is left.

    Raises:
        ConfigError: no header can carry it; the message does not show it.
    """
    value = key.get_secret_value().strip() if key is not None else ""
    if not value.isascii() or not value.isprintable():
        raise ConfigError(
            "the endpoint's key holds a control character, or one that is not ASCII, within it; "
            "copy it again"
        )
    return SecretStr(value) if value else None


def without_key(text: str, key: SecretStr | None, mark: str = "[key]") -> str:
    """The text with the key cut out; servers like to repeat it in their complaints."""
    value = key.get_secret_value().strip() if key is not None else ""
    if len(value) < _SHORTEST_KEY:
        return text
    return text.replace(repr(value)[1:-1], mark).replace(value, mark)
