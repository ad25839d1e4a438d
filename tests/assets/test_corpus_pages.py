"""What the page of a corpus shows before any run."""

from assets.corpora import benchmark_assets, source_assets
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.paper_counts import difference_of

SHOWN = "against the paper"


def test_every_source_shows_why_its_rows_are_not_the_papers():
    """The text of the one table; a test set shows it where it is none of a training corpus."""
    for source, asset in zip(SOURCES, source_assets(SOURCES, BENCHMARKS), strict=True):
        known = difference_of(source.name)
        assert known is not None
        assert known.text == asset.metadata_by_key[asset.key][SHOWN]
        assert f"Paper: {source.paper_raw:,}." in known.text
    tested = {
        benchmark.name: asset.metadata_by_key[asset.key].get(SHOWN)
        for benchmark, asset in zip(BENCHMARKS, benchmark_assets(BENCHMARKS, SOURCES), strict=True)
    }
    fever = difference_of("fever")
    assert fever is not None
    assert {"fever": fever.text} == {name: text for name, text in tested.items() if text}
