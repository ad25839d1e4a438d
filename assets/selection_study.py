"""The selector study: facility location and what it is compared with, on the silver pool.

No part of the funnel: it selects from the same cells again with every selector.
"""

import dagster as dg

from decomposerl.funnel.catalogue import COMPARED
from decomposerl.funnel.selector_comparison import compare_selectors
from decomposerl.funnel.settings import SelectorStudySettings
from decomposerl.kernels.cosine_filter import unit_rows
from decomposerl.reports.figure_style import drawn
from decomposerl.reports.selector_report import (
    selectors_figure,
    selectors_markdown,
    selectors_sentence,
)
from resources.embedder.resource import EmbedderResource
from resources.report.studies import CLOCKS, write_study
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded, picture
from resources.store.rows import StoredRows
from resources.store.run_lock import locked_asset


class SelectorStudyConfig(SelectorStudySettings, dg.Config):
    """``SelectorStudySettings`` as Dagster configuration."""


@dg.asset(key=["study", "selectors"], group_name="studies", kinds={"parquet"})
@locked_asset
def selectors(
    context: dg.AssetExecutionContext,
    config: SelectorStudyConfig,
    silver_decomposed: StoredRows,
    embedder: EmbedderResource,
    data_folder: DataFolder,
) -> dg.MaterializeResult[StageOutput]:
    """Selectors under the same quotas: what they cover, how isolated their picks are, seconds."""
    vectors = embedder.open()
    recorder = StageRecorder(context, config, vectors)
    claims = silver_decomposed.read(COMPARED)
    texts = claims["claim"].to_list()
    rows = unit_rows(vectors.embed(texts), len(texts))
    compared = compare_selectors(rows, claims, config, vectors.engine, CLOCKS)
    for said in compared.missing:
        context.log.warning(f"a selector is left out: {said}")
    figure, sentence = drawn(selectors_figure(compared)), selectors_sentence(compared.table)
    path = write_study(data_folder.path, "selectors", figure, sentence)
    metadata = {
        "study": sentence,
        "figure": picture(figure.png),
        "selectors": folded(selectors_markdown(compared.table)),
        "path": dg.MetadataValue.path(str(path)),
    }
    return recorder.table(compared.table, metadata)
