"""Local paths in settings; URLs are refused.

``Path`` would turn a URL into a local folder named ``s3:``. The message does not repeat the URL,
because it may hold a secret.
"""

import re
import stat
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from decomposerl.errors import ConfigError

_MAX_TOML_BYTES = 1_000_000
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):[/\\]")  # Path writes s3://x as s3:/x


def local(path: str, named: str = "this setting") -> str:
    """The path as written; ``named`` is what holds it, for the message.

    Raises:
        ConfigError: it is a URL.
    """
    scheme = _SCHEME.match(path)
    if scheme:
        raise ConfigError(
            f"{named} holds a URL ({scheme[1]}://...); it must be a path on this machine: copy "
            "what is in a bucket to a folder first"
        )
    return path


LocalPath = Annotated[str, AfterValidator(local)]
"""A path as a field of a resource or of settings."""


def regular_file(path: Path) -> Path:
    """The path itself, if it is a regular file.

    Raises:
        OSError: it is not; reading a pipe, a socket or a device may never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, "no regular file but a folder, pipe, socket or device")
    return path


def text_of(path: Path) -> str:
    """The text of a TOML file of the user.

    Raises:
        ConfigError: it cannot be read, is no UTF-8 or too large.
    """
    try:
        if regular_file(path).stat().st_size > _MAX_TOML_BYTES:
            raise ConfigError(f"{path} has more than {_MAX_TOML_BYTES:,} bytes")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {why}") from error
