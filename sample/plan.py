"""How many claims of which kind go to which corpus.

Training corpora are sized by the square root of the paper's raw counts; test sets have about thirty
claims each.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sample.planting import TABLE_SOURCES, Planter, SampleClaim

SIZES = {
    "llm_aggrefact": 50,  # off by its terms; present to show the refusal
    "ex_fever": 390,
    "feverous": 334,
    "hover": 276,
    "foolmetwice": 220,
    "faviq_a": 214,
    "pubhealth": 194,
    "ambifc": 142,
    "pubhealthtab": 104,
    "scifact": 74,
    "scitab": 60,
    "wice": 58,
    "claimdecomp": 50,
    "pubmedclaim": 44,
}
"""Training rows of each corpus, including copies and unusable rows."""

BENCHMARKS = {
    "fever": 32,
    "claimdecomp": 24,
    "hover": 40,
    "feverous": 36,
    "wice": 24,
    "ex_fever": 36,
    "pubhealth": 32,
    "pubmedclaim": 24,
    "foolmetwice": 34,
    "coverbench": 24,
    "llm_aggrefact": 44,
}
CLAIM_LISTS = {"hover_test": 16, "fever_dev": 16, "ex_fever_mini": 12, "fever_symmetric": 12}
"""Claims of the lists without usable evidence; those of ``fever_symmetric`` have one sentence."""

_SENTENCES = ("foolmetwice", "pubhealth", "ambifc", "wice", "scifact", "faviq_a")
_TEXT = tuple(name for name in SIZES if name not in {*TABLE_SOURCES, "llm_aggrefact"})
_STATED = tuple(name for name in _TEXT if name != "pubmedclaim")  # a question is reworded
_WIKI = ("ex_fever", "feverous", "hover", "foolmetwice", "faviq_a", "ambifc", "pubhealth")
_LONG = ("foolmetwice", "pubhealth", "ambifc", "faviq_a", "wice")

PLANTED: dict[str, tuple[int, tuple[str, ...]]] = {
    "few_sentences": (32, _SENTENCES),
    "few_tokens": (44, (*_TEXT, "pubhealthtab", "scitab")),
    "many_tokens": (26, _LONG),
    "overlap": (44, _STATED),
    "no_entities": (44, _STATED),
    "easy": (400, _TEXT),
    "mislabelled": (215, _TEXT),
    "one_question": (120, _TEXT),
    "long_evidence": (40, _LONG),
}
COPIES: dict[str, int] = {"duplicate_exact": 44, "duplicate_near": 50, "duplicate_paraphrase": 110}
LEAKS: dict[str, int] = {"leak_exact": 32, "leak_near": 32, "leak_paraphrase": 40}
MIDDLE = {
    "ex_fever": 16,
    "feverous": 12,
    "pubhealth": 10,
    "pubhealthtab": 8,
    "ambifc": 8,
    "wice": 6,
    "scifact": 6,
    "scitab": 8,
    "claimdecomp": 6,
    "pubmedclaim": 4,
}
FAULTS = (
    ("foolmetwice", "malformed_line"),
    ("feverous", "malformed_line"),
    ("pubhealth", "unknown_label"),
    ("pubhealthtab", "unknown_label"),
    ("ex_fever", "unknown_label"),
    ("ambifc", "missing_field"),
    ("faviq_a", "missing_field"),
    ("hover", "duplicate_id"),
)
LABELS = ("Supported", "Refuted")


def cases(planter: Planter) -> list[SampleClaim]:
    """Every claim; the ``source`` of a test claim is ``benchmark/<name>`` or ``list/<name>``."""
    tests = _tests(planter)
    planted = _planted(planter)
    ordinary = _ordinary(planter, planted)
    copies = _copies(planter, ordinary) + _leaks(planter, tests)
    train = [*planted, *_trimmed(ordinary, copies), *copies]
    return [*(_with_split(planter, case) for case in train), *tests]


def _planted(planter: Planter) -> list[SampleClaim]:
    makers = {
        "few_sentences": planter.few_sentences,
        "few_tokens": planter.few_tokens,
        "many_tokens": planter.many_tokens,
        "overlap": planter.verbatim,
        "no_entities": planter.nameless,
        "easy": planter.easy,
        "mislabelled": planter.mislabelled,
        "one_question": planter.single,
        "long_evidence": planter.long_evidence,
    }
    made = [
        makers[kind](source, LABELS[index % 2])
        for kind, (count, sources) in PLANTED.items()
        for index, source in enumerate(_shares(count, sources))
    ]
    # A title with a question mark asks one thing, as most of PubMedQA's questions do.
    made += [planter.single("pubmedclaim", LABELS[index % 2]) for index in range(_TITLES)]
    for source, count in MIDDLE.items():
        made += [planter.ordinary(source, "middle", "middle") for _ in range(count)]
    for source, fault in FAULTS:
        made.append(replace(planter.ordinary(source, "Supported", "reject"), fault=fault))
    return made


def _ordinary(planter: Planter, planted: Sequence[SampleClaim]) -> list[SampleClaim]:
    made: list[SampleClaim] = []
    for source, size in SIZES.items():
        room = size - sum(case.source == source for case in planted)
        made += [planter.ordinary(source, LABELS[index % 2]) for index in range(room)]
    return made


def _copies(planter: Planter, ordinary: Sequence[SampleClaim]) -> list[SampleClaim]:
    originals = [c for c in ordinary if c.source in _TEXT and c.source != "pubmedclaim"]
    picked = iter(planter.world.rng.sample(originals, sum(COPIES.values())))
    return [
        planter.copy(next(picked), _copy_source(planter), kind, _wording(planter, kind))
        for kind, count in COPIES.items()
        for _ in range(count)
    ]


def _leaks(planter: Planter, tests: Sequence[SampleClaim]) -> list[SampleClaim]:
    leakable = [case for case in tests if case.source in _LEAKY]
    picked = iter(planter.world.rng.sample(leakable, sum(LEAKS.values())))
    return [
        planter.copy(next(picked), _copy_source(planter), kind, _wording(planter, kind))
        for kind, count in LEAKS.items()
        for _ in range(count)
    ]


_LEAKY = {f"benchmark/{name}" for name in BENCHMARKS if name != "pubmedclaim"}


def _wording(planter: Planter, kind: str) -> Callable[[SampleClaim], str]:
    return {
        "duplicate_exact": planter.exact,
        "duplicate_near": planter.near,
        "duplicate_paraphrase": planter.reworded,
        "leak_exact": planter.exact,
        "leak_near": planter.near,
        "leak_paraphrase": planter.wrapped,
    }[kind]


def _copy_source(planter: Planter) -> str:
    return planter.world.rng.choices(_WIKI, [SIZES[name] for name in _WIKI])[0]


def _trimmed(ordinary: Sequence[SampleClaim], copies: Sequence[SampleClaim]) -> list[SampleClaim]:
    """Ordinary claims, minus one per copy in each corpus; originals are kept."""
    kept: list[SampleClaim] = []
    surplus = {name: sum(copy.source == name for copy in copies) for name in SIZES}
    originals = {copy.group for copy in copies}
    for case in ordinary:
        if surplus[case.source] > 0 and case.uid not in originals:
            surplus[case.source] -= 1
        else:
            kept.append(case)
    return kept


def _tests(planter: Planter) -> list[SampleClaim]:
    made: list[SampleClaim] = []
    for name, count in BENCHMARKS.items():
        for index in range(count):
            case = planter.ordinary(name, LABELS[index % 2], "benchmark")
            made.append(replace(case, source=f"benchmark/{name}", split="test"))
    for name, count in CLAIM_LISTS.items():
        for index in range(count):
            case = planter.ordinary("list", LABELS[index % 2], "benchmark")
            made.append(replace(case, source=f"list/{name}", split="test"))
    return made


def _shares(count: int, sources: Sequence[str]) -> list[str]:
    """``count`` source names in proportion to corpus size, largest remainders first."""
    total = sum(SIZES[name] for name in sources)
    exact = {name: count * SIZES[name] / total for name in sources}
    whole = {name: int(share) for name, share in exact.items()}
    by_rest = sorted(sources, key=lambda name: whole[name] - exact[name])
    for name in by_rest[: count - sum(whole.values())]:
        whole[name] += 1
    return [name for name in sources for _ in range(whole[name])]


_TITLES = 14
_DEV_SHARE = 0.12
_DEV = {"ex_fever", "foolmetwice", "faviq_a", "pubhealth", "pubhealthtab", "ambifc", "wice"}
_DEV |= {"scifact", "claimdecomp"}


def _with_split(planter: Planter, case: SampleClaim) -> SampleClaim:
    """Put about one row in eight into the corpus's dev file, where it has one."""
    to_dev = case.source in _DEV and not case.fault and planter.world.rng.random() < _DEV_SHARE
    return replace(case, split="dev" if to_dev else "train")
