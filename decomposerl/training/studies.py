"""The trained ablations as data: which recipes each compares, the paper's and the embedded ones.

A study compares its first variant with every other one. To add one: a line in ``STUDIES``; its
asset, table and figure follow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

from decomposerl.errors import ConfigError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.training.experiment import DEFAULT_SEED, Experiment
from decomposerl.training.experiments import SEEDS, experiment, with_seed


@dataclass(frozen=True, slots=True)
class Variant:
    """One side of a comparison.

    ``embedded`` is the recipe that trains the tiny policy, ``paper`` the paper's, empty where the
    paper has none. ``moves`` is the measure that the variant should move: the reward that it
    removes, or verification where it withholds labels.
    """

    title: str
    embedded: str
    paper: str = ""
    moves: str = ""


@dataclass(frozen=True, slots=True)
class Study:
    """An ablation. ``section`` is where the paper has it, empty where it has none.

    ``variants`` begin with the one that all others are compared with.
    """

    name: str
    title: str
    section: str
    variants: tuple[Variant, ...]

    @property
    def against(self) -> Variant:
        """What the other variants are compared with."""
        return self.variants[0]

    def only(self, titles: Collection[str]) -> "Study":
        """The study with the variants of these titles alone."""
        return replace(self, variants=tuple(one for one in self.variants if one.title in titles))


_FULL = Variant("all seven rewards", "tiny_clean", "paper_7b")
_TITLES = {reward.name: reward.title.lower() for reward in REWARDS}


def _without(reward: str, *, paper: bool) -> Variant:
    name = f"no_{reward}"
    return Variant(f"without {_TITLES[reward]}", f"tiny_{name}", name if paper else "", reward)


STUDIES: tuple[Study, ...] = (
    Study(
        "supervision",
        "Share of claims with a label",
        "G.3",
        (
            replace(_FULL, title="s = 1.0"),
            *(
                Variant(
                    f"s = {percent / 100}",
                    f"tiny_supervision_{percent}",
                    f"supervision_{percent}",
                    "verification",
                )
                for percent in (70, 50, 30, 10)
            ),
        ),
    ),
    Study(
        "rewards",
        "One reward removed",
        "Table 3 and G.4",
        (
            _FULL,
            *(
                _without(reward, paper=True)
                for reward in ("necessity", "coverage", "diversity", "joint", "question_count")
            ),
            *(_without(reward, paper=False) for reward in ("format", "verification")),
        ),
    ),
    Study(
        "sampling",
        "How the training claims are drawn",
        "G.2",
        (
            replace(_FULL, title="facility location"),
            Variant("uniformly at random", "tiny_random_sampling", "random_sampling"),
        ),
    ),
    Study(
        "scale",
        "Size of the policy",
        "G.5",
        (replace(_FULL, title="larger"), Variant("smaller", "tiny_small", "paper_3b")),
    ),
    Study(
        "judge",
        "What judges",
        "G.6",
        (
            replace(_FULL, title="the profile's judge"),
            Variant("the tiny judge", "tiny_clean_classifiers", "tiny_judge"),
        ),
    ),
    Study(
        "epochs",
        "Half the budget",
        "G.7",
        (
            replace(_FULL, title="whole budget"),
            Variant("half the budget", "tiny_one_epoch", "one_epoch"),
        ),
    ),
    Study(
        "readings",
        "Readings beyond the paper's run",
        "",
        (
            replace(_FULL, title="the paper's reading", paper=""),
            Variant("each reward normalised, then summed", "tiny_normalise_then_sum"),
            Variant("necessity: mean over questions", "tiny_necessity_mean", "", "necessity"),
            Variant("abstentions paid as printed", "tiny_literal", "", "joint"),
        ),
    ),
    Study(
        "votes",
        "Whose verdicts make pseudo-labels",
        "",
        (
            Variant("the judge's, labels on 10 %", "tiny_supervision_10"),
            Variant("the policy's, labels on 10 %", "tiny_vote_policy"),
        ),
    ),
    Study(
        "learning",
        "Controls of the tiny run",
        "",
        (
            Variant("labels on all claims", "tiny"),
            Variant("labels on a tenth", "tiny_s10", "", "verification"),
            Variant("rewards shuffled in groups", "tiny_shuffled", "", "total"),
            Variant("from the clean warm start", "tiny_clean"),
        ),
    ),
)
"""In the order of the paper's results; those without a section go beyond it."""
_ALL_SEEDS = (DEFAULT_SEED, *SEEDS)
MOST_SEEDS = len(_ALL_SEEDS)


def studied(
    variant: Variant, seeds: int, steps: int | None = None, claims: int | None = None
) -> Sequence[Experiment]:
    """The runs of a variant, one per seed, the default seed first.

    ``steps`` are those of a whole budget (the half takes half of them), ``claims`` the held-out
    claims; None keeps the recipe's. A changed run has both in its name, so that it never takes the
    place of the recipe's own.

    Raises:
        ConfigError: there are not as many seeds.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise ConfigError(f"{seeds} seeds: there are 1 to {MOST_SEEDS} (SEEDS in experiments.py)")
    recipe = experiment(variant.embedded)
    return [_shortened(with_seed(recipe, seed), steps, claims) for seed in _ALL_SEEDS[:seeds]]


def finished_part(study: Study, seeds: Mapping[str, Collection[int]]) -> tuple[Study, list[int]]:
    """The most runs that can be compared: the first variant and others, all with the same seeds.

    ``seeds`` are those of the finished runs by variant's title. Of parts of equal size the one with
    more seeds. The study has no variants where nothing can be compared.
    """
    known = sorted(seeds.get(study.against.title, ()))
    drawn = chain.from_iterable(combinations(known, size) for size in range(1, len(known) + 1))
    parts = [
        (study.only({title for title, done in seeds.items() if set(chosen) <= {*done}}), [*chosen])
        for chosen in drawn
    ]
    compared = [part for part in parts if len(part[0].variants) > 1]
    return max(compared, key=_size, default=(study.only(()), []))


def _size(part: tuple[Study, list[int]]) -> tuple[int, int]:
    study, seeds = part
    return len(study.variants) * len(seeds), len(seeds)


def _shortened(recipe: Experiment, steps: int | None, claims: int | None) -> Experiment:
    whole = experiment("tiny").optimization.steps
    optimization, held_out, changed = recipe.optimization, recipe.held_out, ""
    if steps not in {None, whole}:
        own = max(1, round(steps * optimization.steps / whole))
        optimization, changed = replace(optimization, steps=own), f"-steps_{own}"
    if claims not in {None, held_out.claims}:
        held_out, changed = replace(held_out, claims=claims), f"{changed}-claims_{claims}"
    name = f"{recipe.name}{changed}"
    return replace(recipe, name=name, optimization=optimization, held_out=held_out)
