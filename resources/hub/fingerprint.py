"""A local model folder's fingerprint, so that results of two folders of one name never mix."""

import hashlib
from pathlib import Path


def digest_of(folder: Path) -> str:
    """8 hex digits of SHA-256 over the folder's files: relative names and contents."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()[:8]
