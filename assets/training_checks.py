"""The asset check of a trained policy: did its run learn, as far as its curves tell?

Reads the curves that lie on disk. It stops nothing: what is wrong with a run is for a person
to weigh.

Left out deliberately: the rules (``decomposerl.training.health``), which watch a run while it
trains too.
"""

from collections.abc import Sequence

import dagster as dg

from decomposerl.reports.training_report import measures_markdown
from decomposerl.training.curves import ends, history
from decomposerl.training.experiment import Experiment
from decomposerl.training.health import HealthSettings, health_findings
from resources.store.parquet import DataFolder
from resources.store.partition_checks import partitioned_check


def training_health_check(experiments: Sequence[Experiment]) -> dg.AssetChecksDefinition:
    """The check of asset ``policy`` over these recipes."""
    recipes = {one.name: one for one in experiments}
    parts = dg.StaticPartitionsDefinition(list(recipes))

    @partitioned_check(parts, asset=dg.AssetKey("policy"), name="training_health")
    def training_health(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder
    ) -> dg.AssetCheckResult:
        """Groups that move nothing, truncation, the judge, one reward alone, drifting counts."""
        name = context.partition_key
        curves = data_folder.read(f"policy/{name}/curves")
        masked = recipes[name].grpo.mask_truncated
        settings = HealthSettings(mask_truncated=masked)
        findings = health_findings(history(curves), settings)
        stop = any(finding.stop for finding in findings)
        return dg.AssetCheckResult(
            passed=not findings,
            severity=dg.AssetCheckSeverity.ERROR if stop else dg.AssetCheckSeverity.WARN,
            description="; ".join(finding.message for finding in findings) or "nothing is wrong",
            metadata={
                "findings": [finding.rule for finding in findings],
                "steps": len(history(curves)),
                f"means over the last {settings.window} steps": dg.MetadataValue.md(
                    measures_markdown(ends(curves, settings.window)[1])
                ),
            },
        )

    return training_health
