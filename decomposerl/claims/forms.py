"""The layouts in which corpora are published, each with the public page that shows its columns.

Pages are files of Git repositories, pinned by commit, or pages of the Hugging Face hub. They were
read as stored copies; none was requested.
"""

from dataclasses import dataclass

NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Form:
    """One set of columns that a row needs to have, and the layouts that have it.

    ``name`` lists the layouts, such as "native or hub". ``checked_in`` has the public page of
    each, in the same order, or ``NOT_CHECKED``; it is empty for a user's own corpus.
    """

    name: str
    columns: frozenset[str]
    checked_in: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, columns: str, *checked_in: str) -> "Form":
        """Build from comma-separated column names and from pages.

        A page is an address, or ``owner/name@commit:path`` for a file in a repository on GitHub.
        """
        pages = (page if "://" in page else _of_file(page) for page in checked_in)
        return cls(name, frozenset(part.strip() for part in columns.split(",")), tuple(pages))

    @property
    def layouts(self) -> tuple[tuple[str, str], ...]:
        """Each layout with the page that shows its columns."""
        names = self.name.replace(" or ", ", ").split(", ")
        return tuple(zip(names, self.checked_in, strict=True))

    def __str__(self) -> str:
        """The name with the columns, as messages show it."""
        return f"{self.name} ({', '.join(sorted(self.columns))})"


def repository_page(repository: str, path: str) -> str:
    """The page of a file in the Git repository ``owner/name@commit``."""
    name, commit = repository.split("@")
    return f"https://github.com/{name}/blob/{commit}/{path}"


def _of_file(page: str) -> str:
    return page if page == NOT_CHECKED else repository_page(*page.split(":"))
