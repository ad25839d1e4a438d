"""Reports of the funnel: attrition beside the paper's table, stage pages, figures, claims."""

import base64
import itertools
import re
import struct
from dataclasses import astuple
from urllib.parse import unquote
from xml.etree.ElementTree import Element, fromstring

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl import schemas
from decomposerl.claims.catalogue import (
    BENCHMARKS,
    DIFFERENCES,
    PAPER_COUNTS,
    PAPER_TOTAL,
    SOURCES,
    STAGE_REASONS,
    benchmark_of,
)
from decomposerl.claims.load import LoadSettings, load_source
from decomposerl.reports import figure_style, figures
from decomposerl.reports.against_paper import (
    against_paper,
    paper_text,
)
from decomposerl.reports.attrition import (
    STAGES,
    TOTAL,
    StageFrames,
    attrition,
    attrition_markdown,
    attrition_text,
    attrition_wide,
    drops_by_reason,
)
from decomposerl.reports.explain import ClaimRows, claim_journey, drop_words, journey_text
from decomposerl.reports.small_figures import (
    UNFOLDED,
    bars_markdown,
    curves_markdown,
    rows_markdown,
)
from decomposerl.reports.stage_page import close_calls, stage_page
from decomposerl.reports.stage_tally import StageTally
from decomposerl.reports.tables import markdown_table, markdown_text, one_line
from fixture_data import BENCHMARK, HOSTILE, LONG, SELECTED, SIZES, World, build
from project import ROOT
from resources.corpora.folder import FolderCorpora
from strategies import law
from studies.reference import corpus_rows

TITLES = {"ex_fever": "Ex-FEVER", "hover": "HoVer", "scitab": "SciTab", "wice": "WiCE"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build(tmp_path_factory.mktemp("data"))


def read(world: World, key: str) -> pl.DataFrame:
    return pl.read_parquet(world.data / f"{key}.parquet")


def test_attrition_counts_every_row_once(world: World):
    """Rows in = kept + dropped for each stage and source, as counted by the table alone."""

    def rows(source: str, stage: str, outcome: str) -> int:
        return world.attrition.filter(source=source, stage=stage, outcome=outcome)["rows"].sum()

    stages = [stage for stage in STAGES if stage != "diversity_selected"]
    for (before, after), source in itertools.product(itertools.pairwise(stages), SIZES):
        left = rows(source, after, "kept") + rows(source, after, "dropped")
        assert rows(source, before, "kept") == left


some_label = st.sampled_from(["Supported", "Refuted", None])


@law(30)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), some_label)))
def test_attrition_sums_to_the_rows_given(rows: list[tuple[str, str | None]]):
    """Whatever the labels, the table's rows sum to the frame's height; null is ``none``."""
    schema = {"source": pl.String(), "label": pl.String()}
    kept = pl.DataFrame(rows, schema=schema, orient="row")
    counted = attrition([StageFrames("claims", 0, kept, schemas.DROPS.empty())])
    assert len(rows) == counted["rows"].sum()
    assert sum(label is None for _, label in rows) == counted.filter(label="none")["rows"].sum()


def test_wide_table_is_the_papers_table(world: World):
    """One row a source in catalogue order, then the total; unavailable sources show 0."""
    wide = attrition_wide(world.attrition, {"hover": 18171, "scitab": 868}, TITLES)
    assert [*TITLES, "total"] == wide["source"].to_list()
    hover = wide.row(1, named=True)
    assert (18171, 30, 28) == (hover["paper_raw"], hover["read"], hover["raw"])
    total = wide.row(-1, named=True)
    assert sum(SIZES.values()) == total["raw"]
    assert read(world, "training_claims").height == total["final"]
    assert 19039 == total["paper_raw"]
    assert 0 == wide["final"][0]


def test_wide_table_says_what_has_not_run(world: World):
    """A stage without data is null, one after nothing was kept 0; of nothing one empty total."""
    empty = attrition([])
    assert schemas.ATTRITION.schema == empty.schema
    assert [("total", None)] == attrition_wide(empty, {}, {}).select("source", "final").rows()
    early = world.attrition.filter(pl.col("stage_order") <= 1)
    assert [None] * 5 == attrition_wide(early, {}, TITLES)["difficulty"].to_list()
    nothing = early.filter((pl.col("stage_order") == 0) | (pl.col("outcome") != "kept"))
    wide = attrition_wide(nothing, {}, TITLES)
    assert (0, 0) == (wide["rules"][-1], wide["final"][-1])


def test_text_and_markdown_show_the_same_numbers(world: World):
    """Both hold every number of the wide table; sources that were not read are named below it."""
    wide = attrition_wide(world.attrition, {"hover": 18171}, TITLES)
    assert (unread := wide.filter(read=0)["title"].to_list())
    for page in (attrition_text(wide), attrition_markdown(wide)):
        assert [] == [value for value in ("18,171", "HoVer", "Total", "–") if value not in page]
        rows, note = page.split("\n\n")[:2]
        assert all(title in note and title not in rows for title in unread)
    by_reason = drops_by_reason(world.attrition)
    left = world.attrition.filter(pl.col("outcome") != "kept")["rows"].sum()
    assert left == by_reason["total"].sum()
    assert left == by_reason.select(list(SIZES)).sum_horizontal().sum()


def test_stage_page_counts(world: World):
    """The page's numbers are the frames' numbers, and shares are shares of rows in."""
    kept, drops = read(world, "rule_filtered"), read(world, "drops/rule_filtered")
    page = stage_page(
        "rule_filtered", StageTally.of(world.claims, kept, drops), {"min_tokens": 200}
    )
    assert page.rows_in == page.rows_kept + page.rows_dropped
    assert kept.height / world.claims.height == page.numeric["share_kept"]
    assert "| too_few_tokens | 5 | 8.5 % |" in page.by_reason_md
    assert "| 4 | 6.8 % |" in page.by_reason_md
    assert "- 5 too_few_tokens by words_x1.3" in page.by_engine_md.splitlines()
    total, first, *_ = page.by_source_md.splitlines()[2:]
    assert f"| total | {world.claims.height} | {kept.height} |" in total
    assert f"| {next(iter(SIZES))} |" in first
    assert f"{world.claims.height:,} rows in, {kept.height:,} kept" in page.figure_md
    assert "min_tokens" in page.settings_md
    assert "" == page.guard_md
    assert 7 == len(page.sample_md.split("\n"))
    whole = stage_page("s", StageTally.of(world.claims, world.claims), {})
    assert ("none", "") == (whole.by_reason_md, whole.by_engine_md)


def test_the_stage_page_tells_that_minicheck_was_asked_in_our_words(world: World):
    """In bold where ``prompt=own`` is in an engine's name, and not otherwise."""

    def said(engines: str) -> str:
        return stage_page("s", StageTally.of(world.claims), {}, engines=engines).prompt_md

    assert "prompt=own" in said("minicheck:chat prompt=own@0123 r2")
    assert {""} == {said(name) for name in ("lexical", "a prompt=published@01", "b prompt=file@0")}


def test_stage_page_of_nothing():
    """An empty stage has a page: zeros, no division by zero, no sample rows."""
    empty = schemas.CLAIMS.empty()
    page = stage_page("rule_filtered", StageTally.of(empty, empty), {})
    assert {0.0} == set(page.numeric.values())
    assert 2 == len(page.sample_md.split("\n"))


def test_a_third_label_has_its_share_and_its_line(world: World):
    """Where claims have it; elsewhere the page and the figure have the paper's two."""
    third = pl.when(pl.col("label") == "Refuted").then(pl.lit("NotEnoughInfo"))
    claims = world.claims.with_columns(label=third.otherwise("label"))
    page = stage_page("s", StageTally.of(claims, claims), {})
    assert "| NotEnoughInfo |" in page.label_balance_md
    two = stage_page("s", StageTally.of(world.claims, world.claims), {})
    assert "NotEnoughInfo" not in two.label_balance_md
    selected = read(world, "diversity_selected")
    cells = read(world, "selection_cells/diversity_selected")
    for made, styles in ((cells, {"-", "--"}), (cells.with_columns(label=third), {":"})):
        axes = figures.selection_figure(selected, made.drop_nulls("label")).axes[0]
        drawn = {line.get_linestyle() for line in axes.get_lines() if len(line.get_xdata())}
        assert styles == drawn


def test_guard_warns_above_the_share_and_size():
    """A source of 50 rows that loses 41 is named; one that loses 40, or has 49 rows, is not."""

    def claims(source: str, rows: int) -> pl.DataFrame:
        ids = [f"{source}{i}" for i in range(rows)]
        return pl.DataFrame({"claim_id": ids, "source": source, "label": "Supported"})

    rows_in = pl.concat([claims("struck", 50), claims("near", 50), claims("small", 49)])
    kept = pl.concat([claims("struck", 9), claims("near", 10)])
    left = rows_in.join(kept, on="claim_id", how="anti").with_columns(reason=pl.lit("r"))
    drops = pl.concat([schemas.DROPS.empty(), left], how="diagonal")
    tally = StageTally.of(rows_in, kept, drops)
    page = stage_page("rule_filtered", tally, {})
    assert ("struck",) == page.struck
    assert "130 of 149 dropped, 130 as r" == page.most_left
    assert "" == stage_page("s", StageTally.of(rows_in, rows_in), {}).most_left
    assert "struck" in page.guard_md
    assert re.search("near|small", page.guard_md) is None
    likeness = stage_page("deduplicated", tally, {})
    assert ("near", "struck") == likeness.struck
    assert "more than 50%" in likeness.guard_md
    assert () == stage_page("training_claims", tally, {}).struck


def test_close_calls_show_the_removals_nearest_to_their_threshold(world: World):
    """By distance in shares of the threshold, escaped; no exact matches, none unjudged."""
    about = ("hover", "Supported", "deduplicated", "s")
    lost = [
        ("exact", *about, "exact_match", 1.0, 1.0, "far", "hover", None),
        ("far", *about, "lexical_duplicate", 0.95, 0.7, "kept", "hover", None),
        ("near", *about, "lexical_duplicate", 0.7, 0.7, "kept", "hover", None),
        ("leak", *about, "lexical_match", 0.75, 0.7, "elsewhere", "benchmark/fever", None),
        ("unanswered", *about, "no_silver_answer", None, 2.0, None, None, None),
    ]
    drops = pl.DataFrame(lost, schemas.DROPS.schema, orient="row")
    claims = {"far": "a", "near": HOSTILE, "leak": "b", "kept": "the | kept"}
    texts = pl.DataFrame([*claims.items()], ["claim_id", "claim"], orient="row")
    rows = close_calls(StageTally.of(drops=drops).closest, texts).splitlines()
    assert ["near", "leak", "far"] == [row.split("`")[-2] for row in rows]
    assert "the \\| kept" in rows[0]
    assert "<img" not in rows[0]
    assert "elsewhere of benchmark/fever" in rows[1]
    assert "" == close_calls(StageTally.of().closest, texts)
    assert "" == stage_page("s", StageTally.of(world.claims, drops=drops), {}).close_md


@given(st.text() | st.just(HOSTILE))
def test_untrusted_text_cannot_leave_its_cell(text: str):
    """Escaped text holds no tag, no line break, no control character, no open cell border."""
    shown = markdown_text(text, 120)
    assert not re.search(r"[<>\n\r\x00-\x1f\u202e\u2028]", shown)
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*\[\]]", shown)
    table = markdown_table(["a", "b"], [[text, text]])
    assert 3 == len(table.splitlines())
    assert 3 == len(re.findall(r"(?<!\\)(?:\\\\)*\|", table.splitlines()[2]))


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_bounded_and_stable(text: str, limit: int):
    """One line is no longer than its limit, and shortening it again changes nothing."""
    shown = one_line(text, limit)
    assert len(shown) <= limit
    assert shown == one_line(shown, limit)


def test_pictures_are_small_and_repeatable(world: World):
    """Each picture is a PNG below 60 kB, 600 pixels wide or more, repeatable; of nothing too."""

    def pictures(*tables: pl.DataFrame) -> list[bytes]:
        counted, selected, cells = tables
        return [figures.funnel_png(counted), figures.selection_curve_png(selected, cells)]

    picked = read(world, "diversity_selected"), read(world, "selection_cells/diversity_selected")
    first = pictures(world.attrition, *picked)
    assert first == pictures(world.attrition, *picked)
    for picture in first:
        assert b"\x89PNG\r\n\x1a\n" == picture[:8]
        assert len(picture) < 60_000
        assert struct.unpack(">I", picture[16:20])[0] >= 600
    tables = schemas.ATTRITION, schemas.DIVERSITY_SELECTED, schemas.SELECTION_CELLS
    nothing = pictures(*(table.empty() for table in tables))
    assert {b"\x89PNG"} == {picture[:4] for picture in nothing}


def test_what_several_axes_draw_stands_once_in_the_legend():
    """In the order of first appearance; axes without a label make none."""
    figure, ((left, right),) = figure_style.new_grid(6.0, 2.0, 1, 2)
    figure_style.legend(figure, left, columns=2)
    assert [] == figure.legends
    for axes, names in ((left, ("b", "a")), (right, ("a", "c"))):
        for name in names:
            axes.plot([0, 1], [1, 0], label=name)
    figure_style.legend(figure, left, columns=2)
    (made,) = figure.legends
    assert ["b", "a", "c"] == [text.get_text() for text in made.get_texts()]


def found(world: World, claim_id: str) -> ClaimRows:
    from resources.catalogue.claim_lookup import find_claim

    return find_claim(world.data, claim_id)


def test_life_of_a_selected_and_of_a_long_claim(world: World):
    """They pass every stage in order, with numbers; long evidence is passed by and brought in."""
    story = claim_journey(found(world, world.with_fate(SELECTED)))
    assert list(STAGES) == [event.stage for event in story.events]
    assert {"passed"} == {event.outcome for event in story.events}
    text = journey_text(story)
    for words in ("200 tokens", "overlap 0.4", "2 questions", "pick 1"):
        assert words in text
    assert "selected" in story.end
    story = claim_journey(found(world, world.with_fate(LONG)))
    assert list(STAGES) == [event.stage for event in story.events]
    assert "unpicked" == story.events[-2].outcome
    assert "long evidence" in story.end


def test_life_of_a_dropped_claim_says_the_numbers(world: World):
    """The last event is the drop: reason, value held against threshold, step."""
    story = claim_journey(found(world, world.dropped("too_few_tokens")))
    last = story.events[-1]
    assert ("rule_filtered", "dropped") == (last.stage, last.outcome)
    named = ("too few tokens", "120", "200", "token_budget", "words_x1.3")
    assert [] == [word for word in named if word not in last.words]
    assert "words_x1.3" == last.numbers["engine"]
    assert "rule_filtered" in story.end


def test_life_of_a_duplicate_and_a_leak_shows_the_match(world: World):
    """A duplicate names a claim of a source, a leak one of a benchmark, both with text."""
    duplicate = claim_journey(found(world, world.dropped("lexical_duplicate"))).matched
    leak = claim_journey(found(world, world.dropped("semantic_match"))).matched
    assert None not in (duplicate, leak)
    assert ("source", "hover") == (duplicate.where, duplicate.name)
    assert ("benchmark", BENCHMARK) == (leak.where, leak.name)
    assert leak.claim == world.benchmark["claim"][0]


def test_life_names_the_claims_that_left_for_it(world: World):
    """The kept twin of duplicates, and a test claim that was leaked, list who left."""
    assert claim_journey(found(world, world.claims["claim_id"][0])).displaced
    story = claim_journey(found(world, world.benchmark["claim_id"][0]))
    assert "benchmark" == story.where
    assert story.displaced
    assert story.displaced[0].claim_id in journey_text(story)
    assert "never" in story.end


def test_life_between_stages():
    """A claim whose next stage has not run is in the funnel, after a selection the one after."""
    row = {"source": "hover", "label": "Refuted", "claim": "x", "passages": ["a"]}
    rows = {"claims": row | {"native_id": "1", "split": "dev"}}
    fresh = claim_journey(ClaimRows("00", "source", rows, frozenset({"claims"})))
    assert "rule_filtered has not run" in fresh.end
    stale = claim_journey(ClaimRows("00", "source", rows, frozenset({"claims", "rule_filtered"})))
    assert "materialize" in stale.end
    silver = rows | {"silver_decomposed": row | {"n_star": 2, "questions": ["a?", "b?"]}}
    waiting = claim_journey(ClaimRows("00", "source", silver, frozenset(STAGES[:-1])))
    assert "training_claims has not run" in waiting.end


def test_drop_words():
    """Numbers are held against their bound in words, and left out where there are none."""
    words: dict[tuple[float | None, ...], list[str]] = {
        (0.95, 0.9): ["0.95", "above 0.9"],
        (0.6999999, 0.7): ["0.6999999", "below 0.7"],
        (0.7, 0.7): ["0.7", "above 0.7"],
        (1.0, 2.0): ["1 ", "below 2"],
        (12_345.0, 10_000.0): ["12,345", "above 10,000"],
        (3.0, None): ["r: 3 ("],
        (1.0, 1.0): ["r ("],
        (None, None): ["r ("],
    }
    for (value, threshold), numbers in words.items():
        drop = {"reason": "r", "step": "s", "value": value, "threshold": threshold}
        said = drop_words(drop | {"engine": "e"})
        assert [] == [one for one in [*numbers, "step s", "engine e"] if one not in said], said
        assert "engine" not in drop_words(drop)


def test_terminal_text_holds_no_escape_sequence():
    """A claim that carries terminal escapes is shown without them."""
    row = {"source": "hover", "label": None, "claim": HOSTILE, "passages": ["a"]}
    rows = {"claims": row | {"native_id": HOSTILE, "split": "dev"}}
    text = journey_text(claim_journey(ClaimRows("00", "source", rows, frozenset())))
    assert set("\x1b\u202e").isdisjoint(text)


FOLDED = 1_000  # characters of Markdown from which on Dagster's pages fold
NAMES = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
FINITE = st.floats(-1e9, 1e9, allow_nan=False)


def svg_of(markdown: str) -> Element:
    """The SVG in a Markdown image, parsed."""
    found = re.fullmatch(r"!\[.*\]\(<data:image/svg\+xml,([^<>\n]*)>\)", markdown, re.DOTALL)
    assert found, markdown
    return fromstring(unquote(found[1]))  # noqa: S314 - made here


def texts(picture: Element) -> list[str]:
    return [one.text or "" for one in picture.iter() if one.tag.endswith("text")]


@given(st.lists(st.tuples(NAMES, st.integers(0, 10**9)), min_size=1, max_size=40), NAMES)
def test_bars_fit_and_hold_every_count(rows: list[tuple[str, int]], alt: str):
    """Whatever the names: a valid picture below the limit; the last counts may be one bar."""
    markdown = bars_markdown(rows, alt)
    assert len(markdown) <= UNFOLDED < FOLDED
    if not markdown.startswith("!"):
        assert len(alt) > 10  # an alternative text that leaves no room for one bar
        return
    counts = [int(text.rsplit(" ", 1)[1].replace(",", "")) for text in texts(svg_of(markdown))]
    assert sum(counts) == sum(number for _, number in rows)


def test_the_funnel_of_the_paper_fits_whole():
    """Nine stages with six digits each are nine bars, the largest across the whole width."""
    rows = [(f"decontaminated {n}", 155_506 - n) for n in range(9)]
    picture = svg_of(bars_markdown(rows, "rows kept by each stage of the funnel", dark=9))
    assert [f"{name} {number:,}" for name, number in rows] == texts(picture)


def test_what_is_not_dark_is_an_outline():
    """So that kept and dropped rows differ on paper."""
    picture = svg_of(bars_markdown([("kept", 5), ("gone", 3), ("lost", 2)], "rows"))
    filled, outlined = [one for one in picture.iter() if one.tag.endswith("path")]
    assert (1, 2) == tuple(str(one.get("d")).count("M") for one in (filled, outlined))
    assert (None, "none") == (filled.get("fill"), outlined.get("fill"))


@given(st.lists(st.lists(FINITE, max_size=3_000), max_size=4))
def test_curves_fit_and_end_with_the_last_value(values: list[list[float]]):
    """However long: below the limit, the last step drawn at the right edge."""
    markdown = curves_markdown([("sum of rewards", one) for one in values], "rewards")
    assert len(markdown) < FOLDED
    picture = svg_of(markdown)
    lines = [str(one.get("d")) for one in picture.iter() if one.tag.endswith("path")]
    assert len(lines) == min(2, sum(bool(one) for one in values))
    for line in lines:
        assert line.rsplit("L", 1)[-1].strip("M").startswith(("328 ", "2 "))


@given(st.lists(st.tuples(NAMES, st.integers(0, 10**6)), max_size=60))
def test_a_table_has_the_rows_that_fit_and_says_how_many_more(rows: list[tuple[str, int]]):
    """Nothing is left out silently."""
    shown = rows_markdown(["name", "rows"], rows)
    assert len(shown) <= UNFOLDED
    more = re.search(r"and ([\d,]+) more$", shown)
    rest = int(more[1].replace(",", "")) if more else 0
    assert len(rows) == len(shown.split("\n\n")[0].splitlines()) - 2 + rest


def test_data_uri_holds_the_picture():
    """The Markdown image decodes to the bytes it was made of."""
    shown = figures.data_uri(b"bytes", "alt")
    assert b"bytes" == base64.b64decode(shown.split("base64,")[1].removesuffix(")"))


FOLDER = ROOT.parent / "shared" / "corpora"
SOURCE_TITLES = {one.name: one.title for one in SOURCES}
RAW = {one.name: one.paper_raw for one in SOURCES if one.paper_raw is not None}


def kept(**rows: int) -> pl.DataFrame:
    sources = [name for name, count in rows.items() for _ in range(count)]
    return pl.DataFrame({"source": sources, "label": ["Supported"] * len(sources)})


def compared(*stages: dict[str, int]) -> pl.DataFrame:
    """The comparison of a funnel that kept so many rows of each source at its first stages."""
    nothing = schemas.DROPS.empty(), schemas.REJECTS.empty()
    kept_of = [StageFrames(STAGES[n], n, kept(**rows), *nothing) for n, rows in enumerate(stages)]
    counted = attrition(kept_of)
    return against_paper(attrition_wide(counted, RAW, SOURCE_TITLES))


def cell(frame: pl.DataFrame, source: str, column: str) -> tuple[object, ...]:
    names = [column, f"{column}_paper", f"{column}_difference"]
    return frame.filter(source=source).select(names).row(0)


def test_the_papers_table_sums_to_its_totals():
    """Each of its four columns; Raw is that of the sources, and no source gains rows."""
    sums = [sum(column) for column in zip(*map(astuple, PAPER_COUNTS.values()), strict=True)]
    assert astuple(PAPER_TOTAL) == tuple(sums)
    assert RAW == {name: counts.raw for name, counts in PAPER_COUNTS.items()}
    assert list(PAPER_COUNTS) == [one.name for one in SOURCES]
    for counts in map(astuple, PAPER_COUNTS.values()):
        assert list(counts) == sorted(counts, reverse=True)


def test_every_corpus_has_one_reason_and_none_is_empty():
    """Each source in the table's order, then test sets; an equal count alone says "the same"."""
    named = list(DIFFERENCES)
    assert list(PAPER_COUNTS) == named[: len(PAPER_COUNTS)]
    assert {*named[len(PAPER_COUNTS) :]} <= {one.name for one in BENCHMARKS}
    for one in DIFFERENCES.values():
        assert one.reason
        assert one.reason in one.text
        paper = PAPER_COUNTS.get(one.corpus)
        if paper is not None and one.rows is not None:
            assert (one.rows == paper.raw) == one.reason.startswith("The same"), one.corpus
    assert all(STAGE_REASONS.values())


def test_every_reading_of_the_catalogue_is_a_setting_of_the_table():
    """A reading that exists to match the paper is named, and a named one exists."""
    corpora = (*SOURCES, *BENCHMARKS)
    named = [(one.name, reading.name) for one in corpora for reading in one.readings]
    readings = {f"LoadSettings.readings = {{{corpus}: {name}}}" for corpus, name in named}
    assert readings == {one.setting for one in DIFFERENCES.values() if "readings" in one.setting}


def test_a_source_stands_beside_the_papers_row():
    """Ours, the paper's, the difference; empty where the paper has none or a stage has not run."""
    later = [{"hover": rows} for rows in (18, 9, 8, 7, 6, 5, 5)]
    frame = compared({"hover": 20, "scitab": 868, "bridge_notes": 3}, *later)
    assert (20, 18_171, -18_151) == cell(frame, "hover", "raw")
    assert (9, 2_533, -2_524) == cell(frame, "hover", "difficulty")
    assert (6, 2_106, -2_100) == cell(frame, "hover", "silver")
    assert (5, 559, -554) == cell(frame, "hover", "final")
    assert (868, 868, 0) == cell(frame, "scitab", "raw")
    assert (3, None, None) == cell(frame, "bridge_notes", "raw")
    assert (891, 155_506, -154_615) == cell(frame, TOTAL, "raw")
    assert (5, 5_464, -5_459) == cell(frame, TOTAL, "final")
    assert len(SOURCES) + 2 == frame.height
    assert (None, 2_533, None) == cell(compared({"hover": 1}), "hover", "difficulty")


def test_pages_hold_every_source_and_each_reason_once():
    """Text and Markdown: a line per source, also of the user's corpus; reasons below them."""
    frame = compared({"hover": 20, "feverous": 7, "bridge_notes": 3}, {"hover": 18}, {"hover": 9})
    lines = paper_text(frame, markdown=True).splitlines()
    assert len(SOURCES) + 2 + 2 == sum(line.startswith("|") for line in lines)
    for page in (paper_text(frame), paper_text(frame, markdown=True)):
        assert [] == [title for title in SOURCE_TITLES.values() if title not in page]
        assert {1} == {page.replace("\\", "").count(one) for one in STAGE_REASONS.values()}


def test_the_page_on_readings_has_the_table():
    """It says of each corpus what its asset and the comparison say."""
    page = (ROOT / "docs/explanation/paper-readings.md").read_text("utf-8")
    block = page.split("<!-- corpora rows report: begin -->\n")[1]
    shown = block.split("\n<!-- corpora rows report: end -->")[0]
    assert corpus_rows.block() == shown, "write it again: make reference"


@pytest.mark.real
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the real corpora are not beside this folder")
def test_every_difference_on_the_real_corpora_has_its_reason():
    """Each source that is not the paper's says why, from this table and its own dropped rows."""
    files, settings = FolderCorpora(FOLDER), LoadSettings()
    loaded = [load_source(one, benchmark_of(one), files, settings) for one in SOURCES]
    parts = ("claims", "drops", "rejects")
    frames = (pl.concat([getattr(one, part) for one in loaded]) for part in parts)
    counted = attrition([StageFrames(STAGES[0], 0, *frames)])
    frame = against_paper(attrition_wide(counted, RAW, SOURCE_TITLES))
    raw = frame.filter(pl.col("source") != TOTAL)
    assert {"scitab"} == set(raw.filter(raw_difference=0)["source"])
    assert set(raw.filter(pl.col("raw_difference") != 0)["source"]) <= set(DIFFERENCES)
    assert (773, 1_295, -522) == cell(frame, "scifact", "raw")
    whole = {"scitab": 868, "scifact": 773}
    assert whole == {name: DIFFERENCES.get(name).rows for name in whole}  # type: ignore[union-attr]
