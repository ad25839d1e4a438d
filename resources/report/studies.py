"""The studies' clocks and figures: ``studies/`` in the data folder, which the report shows.

A study is ``<name>.png`` and ``<name>.svg``, and ``<name>.txt`` with the sentence that the report
has beside it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from decomposerl.reports.figure_style import Drawn
from decomposerl.reports.report_parts import StudyPicture
from resources.store.temporary import replace_file, replace_text

STUDIES = "studies"
CLOCKS: Mapping[str, Callable[[], float]] = MappingProxyType(
    {"seconds": time.perf_counter, "core_seconds": time.process_time}
)
"""Wall time, and the processor time of all threads, which other programs hardly change."""
_PNG = b"\x89PNG\r\n\x1a\n"


def write_study(data: Path, name: str, figure: Drawn, sentence: str) -> Path:
    """Write a study's figure and its sentence, which names the engine; returns the PNG's path."""
    png = data / STUDIES / f"{name}.png"
    replace_text(png.with_suffix(".txt"), [f"{sentence}\n"])
    replace_file(png.with_suffix(".svg"), lambda path: path.write_bytes(figure.svg))
    replace_file(png, lambda path: path.write_bytes(figure.png))
    return png


def read_studies(data: Path) -> Iterator[StudyPicture]:
    """The figures of the folder, by name; a PNG alone will do, and another file is none."""
    for path in sorted((data / STUDIES).glob("*.png")):
        png, said, svg = path.read_bytes(), path.with_suffix(".txt"), path.with_suffix(".svg")
        if png.startswith(_PNG):
            lines = said.read_text("utf-8", errors="replace").splitlines() if said.is_file() else []
            drawn = Drawn(svg.read_bytes() if svg.is_file() else b"", png)
            yield StudyPicture(path.stem, drawn, lines[0] if lines else "")
