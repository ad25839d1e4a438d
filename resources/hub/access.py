"""The one module that imports ``huggingface_hub``: models in its local cache, their commits.

Models are only looked up here, never downloaded.
"""

import hashlib
from pathlib import Path
from typing import Any

from decomposerl.errors import EngineMissing
from decomposerl.extras import require

_ASK_S = 10.0


def cached_model(repo_id: str, revision: str, cache: Path | None = None) -> Path | None:
    """Folder of a model that ``hf download`` has stored in the hub's local cache, if any.

    ``revision`` is a branch or commit; the folder's name is the commit. ``cache`` None is the
    default folder. Contacts no server.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed (message gives the command).
    """
    hub, where = hub_package(), {"local_files_only": True, "cache_dir": cache}
    try:
        return Path(hub.snapshot_download(repo_id, revision=revision, **where))
    except hub.errors.LocalEntryNotFoundError:
        return None


def model_commit(repo_id: str, revision: str) -> str:
    """The commit that the hub has for a model's branch or tag; one request, no download.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed, or the hub is not reachable or does
            not have the model.
    """
    hub = hub_package()
    try:
        return str(hub.HfApi().model_info(repo_id, revision=revision, timeout=_ASK_S).sha)
    except hub_failures(hub) as error:
        said = " ".join(str(error).split())
        raise EngineMissing(
            f"the commit of {repo_id} is not known: it is neither locked nor in the hub's local "
            f"cache, and the hub did not give it ({said}). With network: hf download {repo_id}"
        ) from error


def digest_of(folder: Path) -> str:
    """8 hex digits over a model folder's file names and contents.

    A part of the engine's name, so that results of two folders of one name never mix.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()[:8]


def hub_failures(hub: Any) -> tuple[type[Exception], ...]:  # noqa: ANN401 - a module
    """What a failed request to the hub raises."""
    # The hub's HTTP library changes between versions; its errors share a base with the hub's.
    return (*hub.errors.HfHubHTTPError.__bases__, OSError, ValueError)


def hub_package() -> Any:  # noqa: ANN401 - a module, imported on first use
    """The package.

    Raises:
        EngineMissing: it is not installed.
    """
    require("huggingface_hub")
    import huggingface_hub
    import huggingface_hub.errors

    return huggingface_hub
