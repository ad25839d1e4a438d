"""Invented tables and claims about their cells.

A table has named rows (systems or towns), topical columns of whole numbers and a caption.
A claim compares rows in one or two columns; a false claim swaps its two rows, which reverses each
comparison.
"""

from dataclasses import dataclass, replace

from sample.world import World, capital

SCIENCE = (
    "On {task}, {a} was better than {b} in {x}, and {b} was better than {a} in {y}.",
    "The best {x} in {task} belongs to {a}, which stays below {b} for {y}.",
    "{b} was far behind {a} in {x} for {task}, and {a} was a little behind {b} in {y}.",
    "{a} is the better choice for {x} in {task}, while {b} is the better choice for {y}.",
    "Among systems for {task}, {a} was first in {x}, and {b} was ahead of {a} in {y}.",
    "In {task}, {a} is ahead of {b} in {x}, and {b} is ahead of {a} in {y}.",
)
HEALTH = (
    "{a} counted more {x} than {b}, although {b} was ahead in {y}.",
    "There were far more {x} in {a} than in {b}, where {y} were the larger worry.",
    "{b} had fewer {x} than {a} but it reported more {y}.",
    "While {a} passed {b} in {x}, it fell behind {b} in {y}.",
    "{a} was worse off than {b} for {x}, and {b} was worse off than {a} for {y}.",
    "For {y}, {b} stood above {a}, which in turn led on {x}.",
)
_BEST = 990  # above every drawn cell
_SUFFIXES = ("Net", "-XL", "Former", "")
_MEASURES = (
    "deaths from {disease}", "children with {disease}", "reports of {symptom}",
    "doses of {drug}", "tests of {food}", "clinics for {group}", "samples with {rock}",
    "grants for {policy}", "nurses trained in {field}", "recalls of {goods}",
    "users of {compound}", "surgeries on the {organ}", "bites by {animals}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InventedTable:
    """A caption, a header (the first cell heads the row names) and rows of cells."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class TableClaim:
    """A table with one claim about it."""

    table: InventedTable
    claim: str


def science(world: World, rows: int, *, true: bool) -> TableClaim:
    """Scores of invented systems on one task; a comparison of two of them."""
    task = world.value("task")
    sets = [f"{world.value('metric')} on {world.value('new')}" for _ in range(8)]
    systems = [
        world.value("new") + world.rng.choice(("Net", "-XL", "Former", "")) for _ in range(rows)
    ]
    caption = f"Table {world.rng.randint(2, 9)}: results of {rows} systems for {task}."
    return _claimed(
        world, InventedTable(caption, ("System", *sets), ()), systems, (SCIENCE, task), true=true
    )


def health(world: World, rows: int, *, true: bool) -> TableClaim:
    """Health figures of invented towns; a comparison of two of them."""
    picked = world.rng.sample(_MEASURES, 7)
    measures = [_filled(world, measure) for measure in picked]
    towns = [world.value("city") for _ in range(rows)]
    caption = f"Health figures by town, {world.value('year')}, {world.value('country')}"
    return _claimed(
        world, InventedTable(caption, ("Town", *measures), ()), towns, (HEALTH, ""), true=true
    )


def _filled(world: World, measure: str) -> str:
    head, slot = measure.rstrip("}").split("{")
    return head + world.value(slot)


def _claimed(
    world: World,
    frame: InventedTable,
    names: list[str],
    worded: tuple[tuple[str, ...], str],
    *,
    true: bool,
) -> TableClaim:
    header = frame.header
    cells = {name: [world.rng.randint(101, 989) for _ in header[1:]] for name in names}
    a, b = world.rng.sample(names, 2)
    x, y = world.rng.sample(range(len(header) - 1), 2)
    if cells[a][x] < cells[b][x]:
        a, b = b, a
    if cells[a][y] > cells[b][y]:
        cells[a][y], cells[b][y] = cells[b][y], cells[a][y]
    templates, task = worded
    template = templates[world.rng.randrange(len(templates))]
    if "best" in template:
        cells[a][x] = _BEST + world.rng.randint(0, 8)
    first, second = (a, b) if true else (b, a)
    values = {"x": header[x + 1], "y": header[y + 1], "task": task}
    claim = capital(template.format(a=first, b=second, **values))
    rows = tuple((name, *map(str, cells[name])) for name in names)
    return TableClaim(replace(frame, rows=rows), claim)
