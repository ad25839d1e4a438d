"""Policies trained with GRPO (paper, section 4): one asset, one partition per recipe and seed.

Reads the claims and base weights that a recipe names, runs training in its own process, and writes
an adapter with its learning curves to ``policy/<experiment>/``. A dry run comes before the first
step and stops a run that cannot succeed. A health check reads the curves afterwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from decomposerl.errors import ConfigError
from decomposerl.reports.training_report import measures_markdown
from decomposerl.rewards.scoring import active_rewards
from decomposerl.training.curves import ends, history
from decomposerl.training.experiment import TINY_BASES, Experiment
from decomposerl.training.experiments import run_name
from decomposerl.training.health import HealthSettings, health_findings
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.store.parquet import DataFolder
from resources.store.recording import partitioned_check
from resources.store.run_lock import locked_asset
from resources.training.resource import PolicyTrainerResource, policy_result
from resources.training.run_inputs import dry_run_folder, gather_inputs, judge_for, restart_notice

_TRAINER_FIELDS = (
    *("python", "launch", "memory_share", "importance_correction", "sleep_mode"),
    *("checkpoint_every", "most_judge_failures", "most_wait_s", "sampler_check_every", "report_to"),
    "liger",
)
_DEPS = ("training_claims", "training_claims_random", "silver_decomposed", *TINY_BASES)


class RunRewards(dg.Config):
    """How one run's rewards differ from its recipe's."""

    own: str = Field(default="", description="import path of your own: module:function")
    weights: dict[str, float] = Field(default={}, description="by reward; own: your own")


class _RunConfig(dg.Config):
    """What may differ in one run from the recipe and from the profile's trainer."""

    # Not run configuration of the trainer resource: Dagster would discard the profile's fields.
    steps: int | None = Field(default=None, ge=1, description="optimizer steps; null: the recipe's")
    model: str | None = Field(
        default=None, description="base: a hub name or a folder; null: the recipe's"
    )
    seed: int | None = Field(
        default=None, ge=0, description="part of the partition's name; another one is refused"
    )
    held_out_claims: int | None = Field(
        default=None,
        ge=0,
        description="held-out claims that are scored; 0: none; null: the recipe's",
    )
    stop_unhealthy: bool = Field(
        default=True, description="let health rules end the run; otherwise they only warn"
    )
    dry_run_only: bool = Field(
        default=False, description="only check whether the run is possible and what it needs"
    )
    start_anyway: bool = Field(
        default=False, description="train even if the dry run finds a problem"
    )
    rewards: RunRewards = RunRewards()

    def applied(self, experiment: Experiment) -> Experiment:
        """The recipe with this run's changes.

        Raises:
            ConfigError: ``seed`` is not the partition's, a weight names no reward, or
                ``rewards.own`` no reward that works.
        """
        if self.seed not in {None, experiment.seed}:
            raise ConfigError(
                f"seed {self.seed} would replace the run of '{experiment.name}', whose seed is "
                f"{experiment.seed}: train --partition {run_name(experiment.name, self.seed)} "
                "instead; SEEDS in decomposerl/training/experiments.py lists the seeds"
            )
        optimization, held_out = experiment.optimization, experiment.held_out
        if self.steps is not None:
            optimization = replace(optimization, steps=self.steps)
        if self.held_out_claims is not None:
            held_out = replace(held_out, claims=self.held_out_claims)
        known = experiment.rewards
        weights = {**known.weights, **self.rewards.weights}
        rewards = replace(known, own=self.rewards.own or known.own, weights=weights)
        active_rewards(rewards)
        model = self.model or experiment.model
        changed = replace(experiment, model=model, optimization=optimization, held_out=held_out)
        return replace(changed, rewards=rewards)

    def applied_to_trainer(self, trainer: PolicyTrainerResource) -> PolicyTrainerResource:
        """The profile's trainer with this run's changes."""
        fields = {name: getattr(self, name) for name in _TRAINER_FIELDS}
        return trainer.model_copy(update={k: v for k, v in fields.items() if v is not None})


def _or_profile(name: str) -> tuple[Any, Any]:
    """A field of the trainer as one of a run, null for the profile's."""
    field: Any = PolicyTrainerResource.model_fields[name]
    kind, text = field.annotation, f"{field.description}; null: as is"
    if get_origin(kind) is Literal:  # which Dagster's configuration does not know
        words = "|".join(get_args(kind))
        return str | None, Field(default=None, description=text, pattern=f"^({words})$")
    return kind | None, FieldInfo.merge_field_infos(field, default=None, description=text)


if TYPE_CHECKING:
    PolicyConfig = _RunConfig
else:
    PolicyConfig = create_model(
        "PolicyConfig", __base__=_RunConfig, **{name: _or_profile(name) for name in _TRAINER_FIELDS}
    )


def policy_asset(experiments: Sequence[Experiment], pool: str | None) -> dg.AssetsDefinition:
    """The asset over these recipes; ``pool`` if training uses a shared device."""
    recipes = {one.name: one for one in experiments}

    @dg.asset(
        partitions_def=dg.StaticPartitionsDefinition(list(recipes)),
        deps=_DEPS,
        group_name="training",
        kinds={"pytorch", "parquet"},
        pool=pool,
        output_required=False,
    )
    @locked_asset
    def policy(
        context: dg.AssetExecutionContext,
        config: PolicyConfig,
        data_folder: DataFolder,
        judge: JudgeResource,
        question_embedder: EmbedderResource,
        policy_trainer: PolicyTrainerResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        """A LoRA adapter trained with the seven rewards, and its learning curves."""
        experiment = config.applied(_existing(recipes.get(context.partition_key)))
        engines = (judge_for(judge, experiment).open().engine, question_embedder.open().engine)
        look = dry_run_folder(data_folder, experiment.name) if config.dry_run_only else None
        material = gather_inputs(data_folder, experiment, engines, policy_trainer.prompts_dir, look)
        trainer = config.applied_to_trainer(policy_trainer)
        run = trainer.plan_run(material, stop_unhealthy=config.stop_unhealthy)
        if config.dry_run_only:
            context.log.info(trainer.dry_run(context, run, material.notes))
            return
        if changed := restart_notice(material):
            context.log.warning(changed)
        options = ["--start-anyway"] if config.start_anyway else []
        trained = trainer.train(context, run, material.notes, options)
        if trained.outcome.stopped:
            context.log.warning(f"stopped early: {trained.outcome.stopped}")
        yield policy_result(trained)

    return policy


def _existing(recipe: Experiment | None) -> Experiment:
    if recipe is None:
        raise ConfigError("this partition's recipe is no longer in the list of experiments")
    return recipe


def training_health_check(experiments: Sequence[Experiment]) -> dg.AssetChecksDefinition:
    """The check of asset ``policy`` over these recipes."""
    recipes = {one.name: one for one in experiments}
    parts = dg.StaticPartitionsDefinition(list(recipes))

    @partitioned_check(parts, asset=dg.AssetKey("policy"), name="training_health")
    def training_health(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder
    ) -> dg.AssetCheckResult:
        """Groups without signal, truncation, judge failures, a lone reward, stale samples."""
        name = context.partition_key
        curves = data_folder.read(f"policy/{name}/curves")
        masked = recipes[name].grpo.mask_truncated
        settings = HealthSettings(mask_truncated=masked)
        findings = health_findings(history(curves), settings)
        stop = any(finding.stop for finding in findings)
        return dg.AssetCheckResult(
            passed=not findings,
            severity=dg.AssetCheckSeverity.ERROR if stop else dg.AssetCheckSeverity.WARN,
            description="; ".join(finding.message for finding in findings) or "no problem",
            metadata={
                "findings": [finding.rule for finding in findings],
                "steps": len(history(curves)),
                f"means over the last {settings.window} steps": dg.MetadataValue.md(
                    measures_markdown(ends(curves, settings.window)[1])
                ),
            },
        )

    return training_health
