"""Native files of the corpora whose evidence is in a page database.

HoVer, Ex-FEVER, FEVEROUS and FEVER: rows name pages; small SQLite databases in the published
layouts have the text.
"""

import json
from collections.abc import Mapping, Sequence

from sample.planting import SampleClaim
from sample.prose import Page
from sample.raw_formats.writing import (
    Row,
    Written,
    broken_lines,
    database,
    delimited,
    json_document,
    json_lines,
    label,
    number,
    pages_of,
    sentences,
    uuid,
)

_FEVER = {"Supported": "SUPPORTS", "Refuted": "REFUTES", "middle": "NOT ENOUGH INFO"}
_EX = {"Supported": "SUPPORT", "Refuted": "REFUTE", "middle": "NOT ENOUGH INFO"}
_HOVER = {"Supported": "SUPPORTED", "Refuted": "NOT_SUPPORTED"}


def hover(
    train: Sequence[SampleClaim], dev: Sequence[SampleClaim], test: Sequence[SampleClaim]
) -> Written:
    """Train file, dev file (the test set), the unlabelled test list, ``wiki_wo_links.db``."""
    out = Written(ids={case.uid: uuid(case) for case in (*train, *dev, *test)})
    twice = next((case for case in train if case.fault == "duplicate_id"), None)
    if twice is not None:
        out.ids[twice.uid] = uuid(train[0])
    folder = "hover/hover_{}_release_v1.1.json"
    rows = {"train": _last(train, twice), "dev": dev}
    for split, cases in rows.items():
        listed = [_hover_row(case, out.ids[case.uid]) for case in cases]
        out.files[folder.format(split)] = json_document(listed)
    listed = [{"uid": uuid(case), "claim": case.claim} for case in test]
    out.files[folder.format("test")] = json_document(listed)
    texts = [(page.title, " ".join(page.sentences)) for page in _sorted((*train, *dev))]
    out.files["hover/wiki_wo_links.db"] = database("documents", ("id", "text"), texts)
    return out


def _last(cases: Sequence[SampleClaim], one: SampleClaim | None) -> list[SampleClaim]:
    """The cases with ``one`` behind the row whose id it repeats."""
    return [*(case for case in cases if case is not one), *([one] if one else [])]


def _hover_row(case: SampleClaim, uid: str) -> Row:
    facts = [[page.title, number(case, 4) % len(page.sentences)] for page in case.pages]
    return {
        "uid": uid,
        "claim": case.claim,
        "supporting_facts": facts,
        "label": label(case, _HOVER),
        "num_hops": 2 + number(case, 5) % 3,
        "hpqa_id": uuid(case).replace("-", "")[:24],
    }


def ex_fever(files: Mapping[str, Sequence[SampleClaim]]) -> Written:
    """CSV files by stem (train, dev, test, mini_test) and ``pages.db``."""
    out = Written()
    header = ["claim", "explanation", "label", "golden entity", "mention", "result entity"]
    for stem, cases in files.items():
        rows = [_ex_row(case) for case in cases]
        out.files[f"ex_fever/{stem}.csv"] = delimited([*header, "discard number"], rows, ",")
        # The corpus has no id: a row is known by its line, and the header is line 1.
        out.ids |= {case.uid: f"{stem}-{index}" for index, case in enumerate(cases, start=2)}
    every = [case for cases in files.values() for case in cases]
    texts = [(page.title, " ".join(page.sentences)) for page in _sorted(every)]
    out.files["ex_fever/pages.db"] = database("documents", ("id", "text"), texts)
    return out


def _ex_row(case: SampleClaim) -> list[object]:
    names = [page.title.replace(" ", "_") for page in case.pages]
    explanation = " ".join(page.sentences[0] for page in case.pages[:2])
    return [case.claim, explanation, label(case, _EX), str(names), "[]", "", ""]


def feverous(files: Mapping[str, Sequence[SampleClaim]], reduced: Sequence[SampleClaim]) -> Written:
    """Native JSON lines by path, the reduced ``feverous_s/train.json``, the page database."""
    out = Written()
    for path, cases in files.items():
        out.ids |= {case.uid: str(number(case, 8)) for case in cases}
        header: Row = {"id": "", "claim": "", "label": "", "evidence": [], "challenge": ""}
        rows = [header, *(_feverous_row(case) for case in cases)]
        out.files[path] = json_lines(rows, [index + 1 for index in broken_lines(cases)])
    out.ids |= {case.uid: str(number(case, 8)) for case in reduced}
    out.files["feverous_s/train.json"] = json_document([_reduced_row(case) for case in reduced])
    every = [case for cases in files.values() for case in cases]
    pages = [(page.title, json.dumps(_feverous_page(page))) for page in _sorted(every)]
    out.files["feverous/feverous_wikiv1.db"] = database("wiki", ("id", "data"), pages)
    return out


def _feverous_row(case: SampleClaim) -> Row:
    elements = [
        f"{page.title}_sentence_{index}"
        for page in case.pages
        for index in range(len(page.sentences))
    ]
    context = {name: [f"{name.rsplit('_', 2)[0]}_title"] for name in elements}
    return {
        "id": number(case, 8),
        "claim": case.claim,
        "label": label(case, _FEVER),
        "evidence": [{"content": elements, "context": context}],
        "annotator_operations": [],
        "expected_challenge": "Multi-hop Reasoning",
        "challenge": ("Multi-hop Reasoning", "Other")[number(case, 3) % 2],
    }


def _reduced_row(case: SampleClaim) -> Row:
    lines = [f"{page.title}\t{sentence}" for page in case.pages for sentence in page.sentences]
    return {
        "id": number(case, 8),
        "claim": case.claim,
        "label": {"Supported": "supports", "Refuted": "refutes"}[case.label],
        "challenge": "Other",
        "evidence": "\n".join(lines),
    }


def _feverous_page(page: Page) -> Row:
    entries = {f"sentence_{index}": text for index, text in enumerate(page.sentences)}
    return {"title": page.title, "order": list(entries), **entries}


def fever(
    test: Sequence[SampleClaim], dev: Sequence[SampleClaim], symmetric: Sequence[SampleClaim]
) -> Written:
    """The test and dev files, FeverSymmetric, and ``fever.db``."""
    out = Written()
    for name, cases in (("test", test), ("dev", dev)):
        out.files[f"fever/paper_{name}.jsonl"] = json_lines(_fever_row(case) for case in cases)
        out.ids |= {case.uid: str(number(case, 7)) for case in cases}
    rows = [_symmetric_row(case) for case in symmetric]
    out.files["fever_symmetric/fever_symmetric_dev.jsonl"] = json_lines(rows)
    out.ids |= {case.uid: f"fever_symmetric-{number(case, 7)}" for case in symmetric}
    pages = [
        (
            _fever_title(page.title),
            " ".join(page.sentences),
            "\n".join(f"{index}\t{text}" for index, text in enumerate(page.sentences)),
        )
        for page in _sorted(test)
    ]
    out.files["fever/fever.db"] = database("documents", ("id", "text", "lines"), pages)
    return out


def _fever_row(case: SampleClaim) -> Row:
    evidence = [
        [number(case, 6), number(case, 6) + 1, _fever_title(page.title), index]
        for page in case.pages
        for index in range(len(page.sentences))
    ]
    return {
        "id": number(case, 7),
        "verifiable": "VERIFIABLE",
        "label": label(case, _FEVER),
        "claim": case.claim,
        "evidence": [evidence],
    }


def _fever_title(title: str) -> str:
    return title.replace(" ", "_").replace("(", "-LRB-").replace(")", "-RRB-")


def _symmetric_row(case: SampleClaim) -> Row:
    sentence = sentences(case)[0]
    return {
        "id": str(number(case, 7)),
        "claim": case.claim,
        "evidence": sentence,
        "sentence1": sentence,
        "sentence2": case.claim,
        "gold_label": label(case, _FEVER),
        "label": label(case, _FEVER),
        "evid": [[sentence, 1.0]],
    }


def _sorted(cases: Sequence[SampleClaim]) -> list[Page]:
    return sorted(pages_of(cases).values(), key=lambda page: page.title)
