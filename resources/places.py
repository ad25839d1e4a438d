"""Where files may lie: in folders of this machine.

Takes what a person wrote as a path. A URL is refused, because ``Path`` would make a local folder
named ``s3:`` of it; it is not repeated, as it may hold a secret.

Left out deliberately: object storage, and whether a folder exists.
"""

import re
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
