"""The files of a corpus in a dataset repository of the Hugging Face hub, or of a local folder.

The network path is tested against a server on loopback that speaks the hub's protocol; it has not
been run against the public hub. Nothing is downloaded unless a person asks for it.
"""

from pathlib import Path

from decomposerl.claims.source import HubLocation
from decomposerl.errors import SourceError
from resources.hub.access import folder_commit, hub_failures, hub_folder, hub_package


def hub_snapshot(location: HubLocation, revision: str | None, endpoint: str | None) -> Path:
    """A folder with the corpus's files at a branch or commit (None: ``main``).

    Its name is the commit. ``endpoint`` is another server, or a folder as ``file://`` address. The
    hub's client resumes and retries, and keeps the files in its own cache.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed (message gives the command).
        SourceError: the repository is gated, absent or unreachable.
    """
    repo, folder = location.repo_id, hub_folder(endpoint)
    if folder is not None:
        return folder / repo / folder_commit(folder, repo, revision)
    hub, page = hub_package(), f"https://huggingface.co/datasets/{repo}"
    try:
        snapshot = hub.snapshot_download(
            repo,
            repo_type="dataset",
            revision=revision,
            endpoint=endpoint,
            allow_patterns=[name for name, _ in location.files],
        )
    except hub_failures(hub) as error:
        absent = isinstance(error, hub.errors.RepositoryNotFoundError)
        if isinstance(error, hub.errors.GatedRepoError) or (location.gated and absent):
            raise SourceError(
                f"{repo} is gated: accept its terms at {page}, then put a token of that account "
                "into HF_TOKEN (or: hf auth login)"
            ) from error
        why = "no such dataset, or it needs a token" if absent else " ".join(str(error).split())
        raise SourceError(f"{repo} could not be fetched: {why} ({page})") from error
    return Path(snapshot)
