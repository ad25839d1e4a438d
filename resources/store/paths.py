"""Where files may lie: in folders of this machine.

Takes what a person wrote as a path. A URL is refused, because ``Path`` would make a local folder
named ``s3:`` of it; it is not repeated, as it may hold a secret.

Left out deliberately: object storage, and whether a folder exists.
"""

import re
import stat
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from decomposerl.errors import ConfigError

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):[/\\]")  # Path writes s3://x as s3:/x


def local(place: str, named: str = "this setting") -> str:
    """The place as it was written; ``named`` is what holds it, for the message.

    Raises:
        ConfigError: it is a URL.
    """
    scheme = _SCHEME.match(place)
    if scheme:
        raise ConfigError(
            f"{named} holds a URL ({scheme[1]}://...); it must be a path on this machine, because "
            "object storage is not supported yet"
        )
    return place


LocalPath = Annotated[str, AfterValidator(local)]
"""A path as a field of a resource or of settings."""


def regular_file(path: Path) -> Path:
    """The path itself, where a file lies that ends.

    Raises:
        OSError: none does; reading a pipe, a socket or a device may never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, "no regular file but a folder, pipe, socket or device")
    return path
