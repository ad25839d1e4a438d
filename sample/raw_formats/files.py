"""All native files of the sample and the native ids of its claims."""

from collections.abc import Sequence

from sample.planting import SampleClaim
from sample.raw_formats import inline as written
from sample.raw_formats import tabular
from sample.raw_formats import wiki as paged
from sample.raw_formats.writing import Written

_REDUCED_EVERY = 6  # one FEVEROUS training row in so many is written in the reduced shape


def write(cases: Sequence[SampleClaim]) -> Written:
    """All files; the order of rows within a file is the order of ``cases``."""

    def of(source: str, split: str | None = None) -> list[SampleClaim]:
        return [c for c in cases if c.source == source and split in (None, c.split)]

    def with_dev(name: str) -> dict[str, list[SampleClaim]]:
        return {"train": of(name, "train"), "dev": of(name, "dev")}

    def with_test(name: str) -> dict[str, list[SampleClaim]]:
        return {**with_dev(name), "test": of(f"benchmark/{name}")}

    ex_fever = {**with_test("ex_fever"), "mini_test": of("list/ex_fever_mini")}
    parts = (
        written.llm_aggrefact({"dev": of("llm_aggrefact"), "test": of("benchmark/llm_aggrefact")}),
        paged.ex_fever(ex_fever),
        _feverous(of("feverous"), of("benchmark/feverous")),
        paged.hover(of("hover"), of("benchmark/hover"), of("list/hover_test")),
        paged.fever(of("benchmark/fever"), of("list/fever_dev"), of("list/fever_symmetric")),
        written.foolmetwice(with_test("foolmetwice")),
        written.faviq_a(with_dev("faviq_a")),
        written.pubhealth(with_test("pubhealth")),
        tabular.pubhealthtab(with_dev("pubhealthtab")),
        written.ambifc(with_dev("ambifc")),
        written.wice(with_test("wice")),
        written.scifact(with_dev("scifact")),
        tabular.scitab(of("scitab")),
        written.claimdecomp(with_test("claimdecomp")),
        written.pubmedqa(of("pubmedclaim"), of("benchmark/pubmedclaim")),
        written.coverbench(of("benchmark/coverbench")),
    )
    out = Written()
    for part in parts:
        out.files |= part.files
        out.ids |= part.ids
    return out


def _feverous(training: list[SampleClaim], test: list[SampleClaim]) -> Written:
    usable = [case for case in training if not case.fault and case.label != "middle"]
    reduced = usable[::_REDUCED_EVERY]
    native = [case for case in training if case not in reduced]
    files = {
        "feverous/feverous_train_challenges.jsonl": native,
        "feverous/feverous_dev_challenges.jsonl": test,
    }
    return paged.feverous(files, reduced)
