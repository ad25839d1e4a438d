"""The one module that imports ``huggingface_hub``: the local cache, commits of models, folders.

An endpoint that begins with ``file://`` is a local folder laid out as
``<repo_id>/<revision>/<file>`` with ``<repo_id>/refs/main`` naming the revision. Models are only
looked up here, never downloaded.
"""

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from decomposerl.errors import EngineMissing, SourceError
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


def model_commit(repo_id: str, revision: str, endpoint: str | None = None) -> str:
    """The commit that the hub has for a model's branch or tag; one request, no download.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed, or the hub is not reachable or does
            not have the model.
    """
    hub, folder = hub_package(), hub_folder(endpoint)
    failures: tuple[type[Exception], ...] = (SourceError, *hub_failures(hub))
    try:
        if folder is not None:
            return folder_commit(folder, repo_id, revision)
        api = hub.HfApi(endpoint=endpoint)
        return str(api.model_info(repo_id, revision=revision, timeout=_ASK_S).sha)
    except failures as error:
        said = " ".join(str(error).split())
        raise EngineMissing(
            f"the commit of {repo_id} is not known: it is neither locked nor in the hub's local "
            f"cache, and the hub did not give it ({said}). With network: hf download {repo_id}"
        ) from error


def hub_folder(endpoint: str | None) -> Path | None:
    """The folder that a ``file://`` endpoint names; None for a server."""
    is_folder = endpoint is not None and endpoint.startswith("file://")
    return Path(unquote(urlsplit(endpoint).path)) if is_folder else None


def folder_commit(root: Path, repo_id: str, revision: str | None) -> str:
    """The revision that a branch (None: ``main``) names in a hub laid out as folders.

    Raises:
        SourceError: there is none.
    """
    ref = root / repo_id / "refs" / (revision or "main")
    if ref.is_file():
        return ref.read_text(encoding="utf-8").strip()
    if revision is not None and (root / repo_id / revision).is_dir():
        return revision
    raise SourceError(f"{repo_id}: no revision '{revision or 'main'}' at {root}")


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
