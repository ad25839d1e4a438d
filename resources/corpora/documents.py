"""The text of PDF and HTML: pypdf and trafilatura read them (extra ``documents``)."""

import io
import re

from decomposerl.errors import SourceFileError
from decomposerl.extras import require

PDF, HTML = ".pdf", ".html"
DOCUMENTS = frozenset({PDF, HTML, ".htm"})
_MOST_PAGES = 2_000
_WRAPPED = re.compile(r"(?<![.!?:])\n(?=\S)")  # a line that ends within a sentence
_HYPHENED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def document_text(data: bytes, suffix: str, name: str = "") -> str:
    """The text, a paragraph or a row of a table on each line; menus and scripts are left out.

    Raises:
        EngineMissing: the library that reads it is not installed.
        SourceFileError: it cannot be read, or holds no text; ``name`` begins the message.
    """
    text = _pdf_text(data, name) if suffix == PDF else _html_text(data)
    if not text.strip():
        why = "holds no text; a scan has to be recognised first"
        raise SourceFileError(f"{name} {why}".strip())
    return text


def _pdf_text(data: bytes, name: str) -> str:
    require("pypdf")
    from pypdf import PdfReader

    try:
        pages = PdfReader(io.BytesIO(data)).pages[:_MOST_PAGES]
        text = "\n\n".join(page.extract_text() for page in pages)
    except Exception as error:  # a damaged file fails in the library in many ways
        raise SourceFileError(f"{name} is no readable PDF: {error}".strip()) from error
    return _WRAPPED.sub(" ", _HYPHENED.sub("", text))


def _html_text(data: bytes) -> str:
    require("trafilatura")
    import trafilatura

    return trafilatura.extract(data, include_comments=False) or ""
