"""The configuration that a job's launchpad opens with."""

import dagster as dg
import pytest
from pydantic import BaseModel

from assets.calibrations import CalibrationConfig
from assets.evaluation import ComparisonConfig
from assets.judge import AgreementConfig, DistillationConfig, HeadConfig, JudgesConfig
from assets.report import ReportConfig
from assets.training import PolicyConfig
from assets.training_inputs import BasePolicyConfig, RandomClaimsConfig
from assets.training_studies import TrainingStudyConfig
from assets.trick_study import FoundTricksConfig, TrickStudyConfig
from dagster_project.definitions import defs
from dagster_project.jobs import JOB_NAMES
from decomposerl.funnel import settings
from decomposerl.training.experiment import BASE_POLICY, CLEAN_POLICY, SMALL_POLICY
from decomposerl.training.studies import STUDIES

PREFILLED: dict[str, dict[str, BaseModel]] = {
    "funnel": {
        "rule_filtered": settings.RuleSettings(),
        "difficulty_band": settings.DifficultySettings(),
        "deduplicated": settings.DedupSettings(),
        "decontaminated": settings.DecontaminationSettings(),
        "silver_decomposed": settings.SilverSettings(),
        "diversity_selected": settings.SelectionSettings(),
        "training_claims": settings.TrainingSettings(),
    },
    "training_inputs": {
        **{base: BasePolicyConfig() for base in (BASE_POLICY, CLEAN_POLICY)},
        "training_claims_random": RandomClaimsConfig(),
    },
    "train": {"policy": PolicyConfig()},
    "calibrate": {"calibrations": CalibrationConfig()},
    "rank": {"comparison": ComparisonConfig()},
    "three_way": {
        "base_policy_three_way": BasePolicyConfig(),
        "study__three_way": TrainingStudyConfig(),
    },
    "studies": {
        "study__selectors": settings.SelectorStudySettings(),
        SMALL_POLICY: BasePolicyConfig(),
        "study__tricks": TrickStudyConfig(),
        "study__trick_signs": TrickStudyConfig(),
        "study__tricks_found": FoundTricksConfig(),
        **{
            f"study__{study.name}": TrainingStudyConfig()
            for study in STUDIES
            if study.name != "three_way"
        },
        "judge_distillation": DistillationConfig(),
        "tiny_judge_heads": HeadConfig(),
        "tiny_judge_agreement": AgreementConfig(),
        "study__judge_rewards": JudgesConfig(),
    },
    "write_report": {"report": ReportConfig()},
}


@pytest.mark.parametrize("job", JOB_NAMES)
def test_a_launchpad_opens_with_every_setting_and_its_default(job: str):
    """Dagster accepts it as it is, and running it is running the job without a configuration."""
    definition = defs.resolve_job_def(job)
    shown = definition.run_config or {}
    if definition.partitions_def is not None:
        (key, *_) = definition.partitions_def.get_partition_keys()
        shown = definition.get_run_config_for_partition_key(key)
    expected = {op: {"config": one.model_dump()} for op, one in PREFILLED.get(job, {}).items()}
    assert ({"ops": expected} if expected else {}) == shown
    assert dg.validate_run_config(definition, shown)


def test_a_part_of_a_job_has_no_settings_of_the_rest():
    """As one stage, materialized from the page of the job."""
    chosen = {dg.AssetKey("deduplicated")}
    part = defs.resolve_job_def("funnel").get_subset(
        asset_selection=chosen, asset_check_selection=set[dg.AssetCheckKey]()
    )
    for given in ({}, {"ops": {"deduplicated": {"config": {"cosine": 0.9}}}}):
        resolved = dg.validate_run_config(part, given)["ops"]
        assert ["deduplicated"] == list(resolved)
        assert {} == given or 0.9 == resolved["deduplicated"]["config"]["cosine"]
