"""``docs/reference/catalogue.md``: corpora, systems, recipes, rewards, jobs and assets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dagster_project.definitions import build_definitions, defs
from dagster_project.environment import read_settings
from dagster_project.jobs import EXAMPLES, JOB_NAMES
from dagster_project.stages import Stage, stages_of
from decomposerl.baselines.catalogue import ENTRY_METHODS, SYSTEM_METHODS
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.downloads import ACCESS, Access, size_text
from decomposerl.claims.source import Benchmark, Corpus, NativeFile, Source
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.systems import CHAT_MODELS, VERIFIERS, Model, systems
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.training.experiments import RECIPES, SEEDS
from studies.reference.markdown import MADE, code, paragraphs, plain, table

_INTRODUCTION = """\
What the project knows by name: corpora and test sets, systems to evaluate, recipes to train,
rewards, jobs and assets. `decomposerl sources` and `decomposerl evaluate --list` print the first
two with your own.
"""
_FILES = """\
Put the files below one folder and name it in `DECOMPOSERL_CORPORA`; each may also be a `.gz`. A
missing corpus gives no claims, and the run continues. After "with" is the file with the evidence
or the test ids. Shared files are training files that serve as test set where no file of its own
is there; they are then split by document, so that no document is on both sides. Claim lists serve
decontamination alone.
"""
_OBTAINED = """\
`decomposerl fetch NAME` gets the files of a training corpus and its test set, checks and lays them
out; with `--pages` also the page databases. Files of Git repositories are pinned by commit and
checked against it. The next column links the pages that the addresses were read from; no address
was requested to make this table. `decomposerl fetch --list --json` prints every address, size and
checksum.
"""
_PORTS = {
    "rules": "the project's own rules, no model",
    "open": "open model, at an endpoint or on a server that the run starts",
    "openai": "api.openai.com",
    "endpoint": "your endpoint, `DECOMPOSERL_ENDPOINT__BASE_URL`",
}
_PROFILES = {
    "embedded": "profile `embedded`",
    "minicheck_local": "profile `local`",
    "minicheck_hosted": "profile `paper`",
}
_GENERAL = {
    "claims": "Claims of a training corpus, read from its native files.",
    "benchmark": "Claims of a test set, read from its native files.",
}
_PARTITIONS = {"policy": "recipe and seed"}


def page() -> str:
    """The page as Markdown."""
    return paragraphs(
        "# Corpora, systems and recipes",
        _INTRODUCTION,
        MADE,
        *_corpora(),
        *_systems(),
        *_recipes(),
        "## Jobs",
        *_jobs(),
        "## Assets",
        *_assets(),
        *_resources(),
    )


def _corpora() -> Iterator[str]:
    yield "## Training corpora"
    yield table(("Corpus", "Name", "Domain", "Training", "Licence", "Terms"), map(_source, SOURCES))
    yield "## Test sets"
    rows = [(*_named(one), _mean(one), *_conditions(one)) for one in BENCHMARKS]
    yield table(("Test set", "Name", "Domain", "Mean", "Licence", "Terms"), rows)
    yield from ("## Native files", _FILES)
    trained = [(code(one.name), _paths((*one.files, *one.extra), one.beside)) for one in SOURCES]
    yield table(("Corpus", "Files for training"), trained)
    tested = [(code(one.name), _test_files(one)) for one in BENCHMARKS]
    yield table(("Test set", "Files"), tested)
    yield from ("## How the files are obtained", _OBTAINED)
    head = ("Corpus", "Obtained", "Size", "Addresses read in", "Left to you")
    yield table(head, map(_obtained, ACCESS.values()))


def _obtained(access: Access) -> tuple[str, ...]:
    pages = dict.fromkeys(download.checked_in for download in access.downloads)
    shown = ", ".join(_read_in(number, page) for number, page in enumerate(pages, 1))
    own = f"accept the terms on the [hub]({access.corpus.homepage})" * ("gated" in access.obtained)
    return code(access.name), access.obtained, size_text(access), shown, own or access.step


def _read_in(number: int, source: str) -> str:
    """A link to the page, then what follows it; or that nothing was read."""
    page, _, more = source.partition(" ")
    return f"[{number}]({page}) {more}".rstrip() if "://" in page else source


def _named(corpus: Corpus) -> tuple[str, str, str]:
    return f"[{corpus.title}]({corpus.homepage})", code(corpus.name), corpus.domain


def _source(source: Source) -> tuple[str, ...]:
    return (*_named(source), "off" if source.training_off else "on", source.license, source.terms)


def _mean(benchmark: Benchmark) -> str:
    means = [name for name, sets in MEANS.items() if benchmark.name in sets]
    return means[0].removeprefix("mean_").replace("_", "-") if means else "none"


def _conditions(benchmark: Benchmark) -> tuple[str, str]:
    return ("as above", "") if benchmark.source else (benchmark.license, benchmark.terms)


def _test_files(one: Benchmark) -> str:
    kinds = {"": one.files, "shared: ": one.shared, "claim list: ": one.claim_lists}
    known = () if one.source else one.beside  # a training corpus has named them
    return "; ".join(
        kind + _paths(files, () if kind else known) for kind, files in kinds.items() if files
    )


def _paths(files: Sequence[NativeFile], beside: Sequence[str]) -> str:
    paths = list(dict.fromkeys(file.path for file in files))
    shown = ", ".join(map(code, paths))
    return f"{shown} with {' or '.join(map(code, beside))}" if beside else shown


def _systems() -> Iterator[str]:
    yield "## Systems"
    yield (
        "A system is a method with a model and a protocol: `self_ask-qwen2.5-7b-faithful`. "
        "`faithful` makes the calls of the publication, `single_call` writes the same procedure "
        "into one call. A verifier has no protocol in its name: `minicheck-7b`. A trained policy "
        "is `decomposerl-<recipe>`, another seed of it `decomposerl-<recipe>-seed_1`. Entries of "
        "`systems.toml` have their own names."
    )
    protocols: dict[str, list[str]] = {}
    for system in systems(SYSTEM_METHODS, ()):
        names = protocols.setdefault(system.method, [])
        names += [] if system.protocol in names else [system.protocol]
    rows = [
        (
            code(one.name),
            one.title,
            one.publication,
            plain(one.calls).removesuffix("; + repeated calls"),
            ", ".join(map(code, protocols.get(one.name, ()))) or "only in `systems.toml`",
        )
        for one in ENTRY_METHODS
    ]
    yield table(("Method", "Title", "Publication", "Calls for a claim", "Protocols"), rows)
    yield "A reply that cannot be read is requested once more; that call comes on top."
    yield table(("Model", "What it is", "Where it runs"), map(_model, (*CHAT_MODELS, *VERIFIERS)))


def _model(model: Model) -> tuple[str, str, str]:
    where = _PROFILES.get(model.requested) or _PORTS[model.port]
    return code(model.key), model.title, where


def _recipes() -> Iterator[str]:
    yield "## Recipes"
    seeds = ", ".join(map(str, SEEDS))
    yield (
        f"`decomposerl train RECIPE` trains one. Each also has the seeds {seeds} (`--seed`), named "
        "`<recipe>-seed_1` and so on."
    )
    rows = [
        (code(one.name), one.title, one.paper or "not in the paper", one.model) for one in RECIPES
    ]
    yield table(("Recipe", "What it is", "In the paper", "Base"), rows)
    yield "## Rewards"
    rows = [
        (
            code(one.name),
            code(one.symbol),
            f"{one.low:g} to {one.high:g}",
            f"{one.weight:g}",
            "judge" if one.judge_roles else "embedder" if one.reads_vectors else "",
        )
        for one in REWARDS
    ]
    yield table(("Reward", "In the paper", "Range", "Weight", "Engine"), rows)


def _jobs() -> Iterator[str]:
    yield (
        "Launch a job in Dagster's UI, or with "
        "`dagster job execute -m dagster_project.definitions -j NAME`."
    )
    jobs = (defs.resolve_job_def(name) for name in JOB_NAMES)
    rows = [(code(job.name), (job.description or "").split("\n")[0]) for job in jobs]
    yield table(("Job", "What it runs"), rows)
    yield "Configurations, for example; what one leaves out keeps its default:"
    for name, example in EXAMPLES.items():
        yield f"### {name}\n\n```yaml\n{example}```"


def _assets() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        stages = stages_of(build_definitions(read_settings({}, data=Path(folder))))
    groups: dict[str, dict[str, tuple[str, str]]] = {}
    for stage in stages.values():
        name, what = _shown(stage)
        groups.setdefault(stage.group, {}).setdefault(name, (what, _partitions(stage)))
    for group in (
        "sources",
        "benchmarks",
        "funnel",
        "training",
        "evaluation",
        "catalog",
        "studies",
        "report",
    ):
        yield f"### Group {group}"
        rows = [(code(name), *rest) for name, rest in groups.pop(group).items()]
        kept = 3 if any(row[2] for row in rows) else 2
        yield table(("Asset", "What it holds", "Partitions")[:kept], [row[:kept] for row in rows])
    if groups:
        raise ValueError(f"groups without a place on the page: {', '.join(groups)}")


def _resources() -> Iterator[str]:
    yield "## Resources"
    yield (
        "Each has a default from profile and environment. A run changes one under "
        "`resources: {NAME: {config: {…}}}`."
    )
    named = sorted((defs.resources or {}).items())
    rows = [(code(name), _does(resource)) for name, resource in named]
    yield table(("Resource", "What it is"), rows)


def _does(resource: object) -> str:
    said = getattr(resource, "description", None) or type(resource).__doc__ or ""
    return plain(said.split("\n")[0])


def _shown(stage: Stage) -> tuple[str, str]:
    folder, _, name = stage.key.partition("/")
    if not name or stage.group == "studies":
        return stage.key, plain(stage.what)
    of = "corpus" if folder == "claims" else "test set"
    return f"{folder}/<{of}>", _GENERAL.get(folder, plain(stage.what))


def _partitions(stage: Stage) -> str:
    return _PARTITIONS.get(stage.key, "system") if stage.partitioned else ""
