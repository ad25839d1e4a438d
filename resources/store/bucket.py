"""The objects below one prefix of a bucket, over S3, Google or Azure storage, through obstore.

A file becomes an object by one PUT or one completed multipart upload, so a reader sees an object
whole, old or new. obstore retries what fails on the way; where an upload was stored but its answer
was lost, the object's digest shows it. Credentials, region and endpoint are obstore's to read from
the environment; no error has them, nor a response's text.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from errno import ENOENT
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decomposerl.errors import ConfigError, StorageError
from decomposerl.extras import require

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az")
_MOST_PARTS = 9_000  # S3 takes 10,000
_PARALLEL_PARTS = 4
_ATTEMPTS = 3
_DIGEST = "sha256"
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z -]*)")
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_PLACE = re.compile(r"[a-z]+:/{2}\S*")


Version = Mapping[str, str]
"""What a conditional request compares: the tag, and the version where a store has one."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a part of a multipart upload, and of a range of a download."""

    part: int = 16 << 20
    range: int = 32 << 20


@dataclass(frozen=True, slots=True)
class Held:
    """A small object as read: its bytes, its version, and when the server stored it."""

    data: bytes
    version: Version
    modified: datetime


class Changed(Exception):  # noqa: N818 - an outcome rather than an error
    """An object is there already, or is no longer the expected one."""


def checked_url(url: str, named: str) -> str:
    """The URL without a slash at its end; ``named`` is what holds it, for the message.

    Raises:
        ConfigError: it is not ``scheme://bucket[/prefix]``, or holds credentials. The message
            does not repeat it.
    """
    scheme, _, rest = url.strip().partition("://")
    bucket, *parts = rest.rstrip("/").split("/")
    if scheme not in SCHEMES:
        raise ConfigError(f"{named} holds a URL of an unknown scheme: s3, gs and az are known")
    if set("@?#") & set(rest) or ":" in bucket:
        raise ConfigError(
            f"{named} holds a URL with more than bucket and prefix: credentials and options come "
            "from the environment (AWS_..., GOOGLE_..., AZURE_...)"
        )
    if not bucket or not all(part and part.strip(".") for part in parts):
        raise ConfigError(f"{named} must be {scheme}://bucket/prefix")
    return "/".join([f"{scheme}://{bucket}", *parts])


class Bucket:
    """Keys are relative to the URL's prefix and have slashes."""

    def __init__(
        self, url: str, options: Mapping[str, Any] | None = None, sizes: Sizes | None = None
    ) -> None:
        """``url`` is from ``checked_url``; ``options`` are keywords of obstore's ``from_url``."""
        self.url = url
        self._sizes = sizes or Sizes()
        self._options = dict(options or {})

    @cached_property
    def _store(self) -> "ObjectStore":
        require("obstore")
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        try:
            return from_url(self.url, **self._options)
        except (BaseError, ValueError) as error:
            raise ConfigError(
                f"{self.url} cannot be used ({type(error).__name__}): check the variables of its "
                "storage in the environment"
            ) from None

    def fetch(self, key: str, target: Path, unless: str = "") -> str | None:
        """Write the object to a file; returns its tag, or None where it still has ``unless``.

        Raises:
            FileNotFoundError: there is no such object.
            StorageError: it cannot be read.
        """
        import obstore
        from obstore.exceptions import NotModifiedError

        options: Any = {"if_none_match": unless} if unless else None
        while True:
            try:
                with self._naming(key), target.open("wb") as file:
                    answer = obstore.get(self._store, key, options=options)
                    tag, size = answer.meta["e_tag"] or "", answer.meta["size"]
                    if size <= self._sizes.range:
                        file.write(answer.bytes())
                    else:  # a range is one request: none takes longer than a request may
                        file.writelines(self._ranges(key, tag, size))
                    return tag
            except NotModifiedError:
                return None
            except Changed:
                continue  # replaced while its ranges were read

    def _ranges(self, key: str, tag: str, size: int) -> Iterator[memoryview]:
        import obstore

        for start in range(0, size, self._sizes.range):
            end = min(start + self._sizes.range, size)
            options: Any = {"range": (start, end), "if_match": tag}
            yield memoryview(obstore.get(self._store, key, options=options).bytes())

    def put(self, key: str, file: Path) -> str:
        """Store a file as an object, whole or not at all; returns its tag.

        Raises:
            StorageError: it cannot be stored.
        """
        import obstore

        size, digest = file.stat().st_size, _digest_of(file)
        for attempt in range(_ATTEMPTS):
            try:
                with self._naming(key):
                    stored = obstore.put(
                        self._store,
                        key,
                        file,
                        attributes={_DIGEST: digest},
                        chunk_size=max(self._sizes.part, size // _MOST_PARTS),
                        max_concurrency=_PARALLEL_PARTS,
                    )
                    return stored["e_tag"] or ""
            except (StorageError, FileNotFoundError) as error:
                # The answer may be lost of an upload that was stored; its completion, repeated, is
                # then of an upload that does not exist.
                if (tag := self._tag_with(key, digest)) is not None:
                    return tag
                if attempt == _ATTEMPTS - 1:
                    raise StorageError(str(error)) from None
        raise AssertionError

    def _tag_with(self, key: str, digest: str) -> str | None:
        """The tag of the object if it has this digest."""
        import obstore

        try:
            with self._naming(key):
                held = obstore.get(self._store, key, options={"head": True})
        except (FileNotFoundError, StorageError):
            return None
        return held.meta["e_tag"] if held.attributes.get(_DIGEST) == digest else None

    def put_small(self, key: str, data: bytes, expected: Version | None) -> Version:
        """Create an object, or replace the one of version ``expected``; returns its version.

        Raises:
            Changed: the object is there, or has another version. A repeated request whose first
                answer was lost raises it too: read the object to know.
            StorageError: it cannot be stored.
        """
        import obstore

        with self._naming(key):
            mode: Any = "create" if expected is None else expected
            return _version(obstore.put(self._store, key, data, mode=mode))

    def read_small(self, key: str) -> Held | None:
        """An object; None where there is none.

        Raises:
            StorageError: it cannot be read.
        """
        import obstore

        try:
            with self._naming(key):
                answer = obstore.get(self._store, key)
                meta = answer.meta
                return Held(bytes(answer.bytes()), _version(meta), meta["last_modified"])
        except FileNotFoundError:
            return None

    def tags(self, prefix: str = "") -> dict[str, str]:
        """The tags of all objects below a folder (``""``: of all), by key.

        Raises:
            StorageError: they cannot be listed.
        """
        import obstore

        with self._naming(prefix):
            return {
                one["path"]: one["e_tag"] or ""
                for batch in obstore.list(self._store, prefix=prefix or None)
                for one in batch
            }

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens where there is none.

        Raises:
            StorageError: it cannot be removed.
        """
        import obstore

        try:
            with self._naming(key):
                obstore.delete(self._store, key)
        except FileNotFoundError:
            pass

    @contextmanager
    def _naming(self, key: str) -> Iterator[None]:
        """Give obstore's errors the object's URL and nothing that may be secret."""
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            NotModifiedError,
            PreconditionError,
        )

        place = f"{self.url}/{key}".rstrip("/")
        try:
            yield
        except NotModifiedError:
            raise
        except (AlreadyExistsError, PreconditionError):
            raise Changed(place) from None
        except FileNotFoundError as error:  # obstore's for an object or a bucket
            if "NoSuchBucket" in str(error):
                raise StorageError(f"{place}: there is no such bucket") from None
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), place) from None
        except BaseError as error:
            raise StorageError(f"{place} cannot be reached: {_said(error)}") from None


def _version(stored: Mapping[str, Any]) -> Version:
    return {name: stored[name] for name in ("e_tag", "version") if stored[name] is not None}


def _said(error: Exception) -> str:
    """Status and code of a response, or the kind of failure; never the response's text."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if status:
        return status[1].strip() + (f" ({code[1]})" if code else "")
    reason = text.partition("\n")[0].rpartition(" - ")[2]
    return f"{type(error).__name__}, {_PLACE.sub('...', reason)[:200]}"


def _digest_of(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, _DIGEST).hexdigest()
