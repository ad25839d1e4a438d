"""The files of a corpus in a dataset repository of the Hugging Face hub, or of a local folder.

The network path is tested against a server on loopback that speaks the hub's protocol; it has not
been run against the public hub. Nothing is downloaded unless a person asks for it.
"""

from collections.abc import Sequence
from pathlib import Path

from decomposerl.errors import SourceError
from resources.hub.access import folder_commit, hub_failures, hub_folder, hub_package


def hub_snapshot(
    repo: str, patterns: Sequence[str], revision: str | None, endpoint: str | None
) -> Path:
    """A folder with the files of a dataset at a branch or commit (None: ``main``).

    Its name is the commit. ``endpoint`` is another server, or a folder as ``file://`` address. The
    hub's client resumes and retries, and keeps the files in its own cache.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed (message gives the command).
        SourceError: the repository is gated, absent or unreachable.
    """
    if (folder := hub_folder(endpoint)) is not None:
        return folder / repo / folder_commit(folder, repo, revision)
    hub, page = hub_package(), f"https://huggingface.co/datasets/{repo}"
    where = {"repo_type": "dataset", "revision": revision, "endpoint": endpoint}
    try:
        return Path(hub.snapshot_download(repo, allow_patterns=list(patterns), **where))
    except hub.errors.RepositoryNotFoundError as error:  # as a gated one is to the unknown
        raise SourceError(
            f"{repo} is gated: accept its terms at {page}, then put a token of that account "
            "into HF_TOKEN (or: hf auth login)"
        ) from error
    except hub_failures(hub) as error:
        why = " ".join(str(error).split())
        raise SourceError(f"{repo} could not be fetched: {why} ({page})") from error
