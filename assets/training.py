"""Policies trained with GRPO (paper, section 4): one asset, a partition a recipe.

Takes the claims and base weights that a recipe names, has them trained in a process of its
own, and gives an adapter with its learning curves in ``policy/<experiment>/``. The first steps
are spent only where a look before finds that the run can be done.

Left out deliberately: recipes (``decomposerl.training.experiments``), training and its process
(``resources.training``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import dagster as dg
from pydantic import Field

from decomposerl.errors import ConfigError
from decomposerl.training.experiment import Experiment
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.store.parquet import DataFolder
from resources.store.run_lock import locked_asset
from resources.training.recording import policy_result
from resources.training.resource import PolicyTrainerResource
from resources.training.run_inputs import gather, look_folder, news
from resources.training.run_judge import judge_for

_OF_TRAINER = (
    *("python", "launch", "paged", "memory_share"),
    *("checkpoint_every", "most_judge_failures"),
)
_DEPS = ("training_claims", "training_claims_random", "silver_decomposed", "base_policy")


class PolicyConfig(dg.Config):
    """What may differ in one run, from the recipe and from how the profile trains.

    Fields of a resource are not for this: Dagster takes those of one run as all of them, and
    what the profile had set is then lost.
    """

    steps: int | None = Field(default=None, ge=1, description="optimizer steps; null: the recipe's")
    seed: int | None = Field(default=None, ge=0, description="of sampling and order; as above")
    held_out_claims: int | None = Field(
        default=None, ge=0, description="claims that tell the progress; 0: none; as above"
    )
    stop_unhealthy: bool = Field(
        default=True, description="health rules may end the run; otherwise they only warn"
    )
    dry_run_only: bool = Field(
        default=False, description="look whether the run can be done, and what it takes"
    )
    start_anyway: bool = Field(
        default=False, description="train also where that look finds a problem"
    )
    python: str | None = Field(default=None, description="interpreter; null: the profile's")
    launch: list[str] | None = Field(
        default=None,
        description="words between interpreter and -m, for several GPUs: -m, "
        "accelerate.commands.launch, --config_file, configs/accelerate/two_gpus.yaml",
    )
    paged: bool | None = Field(default=None, description="transformers: continuous batching")
    memory_share: float | None = Field(
        default=None, gt=0, le=1, description="vllm_colocate: of the card's memory"
    )
    checkpoint_every: int | None = Field(default=None, ge=1, description="optimizer steps")
    most_judge_failures: float | None = Field(
        default=None, ge=0, le=1, description="share of judged scores without a ruling; ends it"
    )

    def applied(self, experiment: Experiment) -> Experiment:
        """The recipe with what differs."""
        optimization, held_out = experiment.optimization, experiment.held_out
        if self.steps is not None:
            optimization = replace(optimization, steps=self.steps)
        if self.held_out_claims is not None:
            held_out = replace(held_out, claims=self.held_out_claims)
        seed = experiment.seed if self.seed is None else self.seed
        return replace(experiment, optimization=optimization, held_out=held_out, seed=seed)

    def applied_to_trainer(self, trainer: PolicyTrainerResource) -> PolicyTrainerResource:
        """The profile's trainer with what differs."""
        said = {name: getattr(self, name) for name in _OF_TRAINER}
        return trainer.model_copy(update={k: v for k, v in said.items() if v is not None})


def policy_asset(experiments: Sequence[Experiment], pool: str | None) -> dg.AssetsDefinition:
    """The asset over these recipes; ``pool`` where training takes a device that others use."""
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
    def policy(  # noqa: PLR0913, PLR0917 - four of them are resources
        context: dg.AssetExecutionContext,
        config: PolicyConfig,
        data_folder: DataFolder,
        judge: JudgeResource,
        question_embedder: EmbedderResource,
        policy_trainer: PolicyTrainerResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        """A LoRA adapter trained with the seven rewards, and how it learned."""
        experiment = config.applied(_recipe(recipes.get(context.partition_key)))
        engines = (judge_for(judge, experiment).open().engine, question_embedder.open().engine)
        look = look_folder(data_folder, experiment.name) if config.dry_run_only else None
        material = gather(data_folder, experiment, engines, policy_trainer.prompts_dir, look)
        trainer = config.applied_to_trainer(policy_trainer)
        run = trainer.planned(material, stop_unhealthy=config.stop_unhealthy)
        if config.dry_run_only:
            context.log.info(trainer.look(context, run, material.notes))
            return
        if changed := news(material):
            context.log.warning(changed)
        options = ["--start-anyway"] if config.start_anyway else []
        trained = trainer.train(context, run, material.notes, options)
        if trained.outcome.stopped:
            context.log.warning(f"stopped early: {trained.outcome.stopped}")
        yield policy_result(trained)

    return policy


def _recipe(found: Experiment | None) -> Experiment:
    if found is None:
        raise ConfigError("this partition's recipe is no longer in the list of experiments")
    return found
