"""The report: tables and figures of everything in the data folder, as pages for a browser."""

from collections.abc import Sequence

import dagster as dg
from pydantic import Field

from decomposerl.claims.source import Benchmark, Source
from decomposerl.evaluation.systems import System
from decomposerl.training.experiment import Experiment
from resources.store.parquet import DataFolder
from resources.store.recording import picture
from resources.store.run_lock import locked_asset

_DEPS = ("attrition", "chat_replies", "policy", "calibrations", "leaderboard", "comparison")


class ReportConfig(dg.Config):
    """What may differ in one run."""

    traces: int = Field(
        default=10,
        ge=0,
        description="claims of each system and test set on the trace page; 0: no trace page",
    )


def report_asset(
    sources: Sequence[Source],
    benchmarks: Sequence[Benchmark],
    systems: Sequence[System],
    experiments: Sequence[Experiment],
) -> dg.AssetsDefinition:
    """The asset over what may be in the data folder."""

    @dg.asset(deps=list(_DEPS), group_name="report", kinds={"html"})
    @locked_asset
    def report(config: ReportConfig, data_folder: DataFolder) -> dg.MaterializeResult[None]:
        """One page with the paper's tables and figures from this folder's own data."""
        # Pages and figures are a tenth of all modules, and no other asset needs them.
        from resources.report.files import report_html_path, write_report
        from resources.report.inputs import ReportNames, read_report_data

        runs = [one.name for one in experiments]
        names = ReportNames(sources, benchmarks, systems, runs)
        read = read_report_data(data_folder, names)
        sections = write_report(data_folder.path, read, config.traces)
        page = report_html_path(data_folder.path)
        missing = [one.title for one in sections if one.missing]
        pictures = {one.name: one.drawn.png for section in sections for one in section.pictures}
        return dg.MaterializeResult(
            metadata={
                "page": dg.MetadataValue.url(page.as_uri()),
                "path": dg.MetadataValue.path(str(page)),
                "missing": ", ".join(missing) or "nothing",
                **{name: picture(png) for name, png in pictures.items()},
            }
        )

    return report
