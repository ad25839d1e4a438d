"""Entities by rules, and from real, tiny spaCy pipelines that are trained or written here."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.training import Example

from decomposerl.errors import ConfigError, EngineMissing
from resources.entities.rule_engine import RuleEntities, distinct_forms, normalise
from resources.entities.spacy_engine import SpacyEntities, SpacyModel, install_hint
from strategies import law

ENGINE = RuleEntities()


ENTITIES = {
    "Maria Keller was born in Oslo.": {"maria keller", "oslo"},
    "The treaty was signed on 4 March 1921 by Alan Reed.": {"4 march 1921", "alan reed"},
    "Profits rose by 12.5% to $3 million.": {"12.5%", "$3 million"},
    'The song "Blue Hour" reached number two.': {"blue hour", "two"},
    "TP53 loss raises IL-6 in breast cancer.": {"tp53", "il-6", "breast cancer"},
    "Smith's Bridge of the North fell.": {"smith", "bridge of the north"},
    # Numbers and runs of plain words stand in for names where nothing is capitalised.
    "the last time the cleveland browns won a game was 1994": {"cleveland browns", "1994"},
}
NONE = [
    "The weather was pleasant for most of the week.",
    "Many people enjoy long walks in the evening.",
    "However, nobody knew what had really happened.",
    "Walking is often better than running.",
    "",
    "  ?!  ",
]


def test_plain_entities_are_found():
    """Names, dates, amounts, titles, symbols, terms; a capital that begins a sentence is none."""
    found = dict(zip(ENTITIES, ENGINE.entities([*ENTITIES]), strict=True))
    assert {} == {claim: forms for claim, forms in found.items() if ENTITIES[claim] - set(forms)}
    assert [[]] * len(NONE) == ENGINE.entities(NONE)


def test_forms_are_distinct_normal_and_in_order():
    """A surface form counts once, at its first place, without determiner, possessive and case."""
    found = ENGINE.entities(["Anna Berg met the Nile Club and ANNA BERG left Nile Club in 1990."])
    assert ["anna berg", "nile club", "1990"] == found[0]
    assert "red river" == normalise(" The  Red River's ")
    assert ENGINE.engine.startswith("rule_entities:2:spacy-3.")


@law(50)
@given(texts=st.lists(st.text(max_size=40), max_size=4))
def test_any_text_is_answered(texts: list[str]):
    """Any text gets distinct, non-empty, normal forms, the same ones every time and alone."""
    found = ENGINE.entities(texts)
    assert len(texts) == len(found)
    assert found == [ENGINE.entities([text])[0] for text in texts]
    assert all(len(set(forms)) == len(forms) and all(forms) for forms in found)


# By spaCy's models


WORDS = ["Aspirin", "Paris", "the WHO", "fever", "New York", "York", "helps", "in", "."]
TRAINED_ON = [
    ("Aspirin lowers fever", [(0, 7, "DRUG")], ["N", "V", "N"]),
    ("Paris is big", [(0, 5, "PLACE")], ["N", "V", "J"]),
    ("big fever is low", [], ["J", "N", "V", "J"]),
]


EMBED = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 16,
    "attrs": ["NORM", "SHAPE"],
    "rows": [100, 100],
    "include_static_vectors": False,
}
ENCODE = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": 16,
    "depth": 1,
    "window_size": 1,
    "maxout_pieces": 2,
}
SHARED = {"@architectures": "spacy.Tok2Vec.v2", "embed": EMBED, "encode": ENCODE}
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "*"}
TAGGER = {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER, "normalize": False}
NER = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    "state_type": "ner",
    "extra_state_tokens": False,
    "hidden_width": 16,
    "maxout_pieces": 2,
    "use_upper": True,
    "tok2vec": LISTENER,
}


def ruler(folder: Path, patterns: list[str]) -> str:
    """A blank pipeline that finds the patterns, and a sentencizer nobody needs."""
    pipeline = spacy.blank("en", meta={"name": folder.name, "version": "1.2.3"})
    pipeline.add_pipe("sentencizer")
    rules = pipeline.add_pipe("entity_ruler", config={"overwrite_ents": True})
    rules.add_patterns([{"label": "X", "pattern": text} for text in patterns])
    folder.mkdir(parents=True)
    pipeline.to_disk(folder)
    return str(folder)


def trained(folder: Path) -> str:
    """A tagger and an entity recogniser that listen to one shared tok2vec; always the same ones."""
    spacy.util.fix_random_seed(0)  # of some beginnings so few examples are not learnt
    pipeline = spacy.blank("en", meta={"name": folder.name, "version": "0.0.1"})
    for name, model in (("tok2vec", SHARED), ("tagger", TAGGER), ("ner", NER)):
        pipeline.add_pipe(name, config={"model": model})
    examples = [
        Example.from_dict(pipeline.make_doc(text), {"entities": spans, "tags": tags})
        for text, spans, tags in TRAINED_ON
    ]
    pipeline.initialize(lambda: examples)
    for _ in range(60):
        pipeline.update(examples)
    pipeline.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two pipelines of rules and a trained one, saved as folders."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "drugs": ruler(folder / "drugs", ["Aspirin", "the WHO", "New York", "fever"]),
        "places": ruler(folder / "places", ["Paris", "York", "WHO", "Aspirin"]),
        "trained": trained(folder / "trained"),
    }


def test_a_form_counts_once_in_the_order_of_the_text(models: dict[str, str]):
    """Both models' forms, normalised, by first appearance; overlapping forms are both kept."""
    engine = SpacyEntities((models["places"], models["drugs"]))
    text = "In New York the WHO met Aspirin, Paris and aspirin; Aspirin again."
    assert [["new york", "york", "who", "aspirin", "paris"], []] == engine.entities([text, ""])
    assert [] == engine.entities([])


@pytest.fixture(scope="module")
def engines(models: dict[str, str]) -> dict[str, SpacyEntities]:
    """Each model alone, and the union in both orders and in batches of one and two texts."""
    names = (models["drugs"], models["places"], models["trained"])
    alone = {name: SpacyEntities((name,)) for name in names}
    return alone | {
        "union": SpacyEntities(names, batch_size=1),
        "turned": SpacyEntities(names[::-1], batch_size=2),
    }


@law(30)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), max_size=6))
def test_the_union_holds_what_each_model_finds(engines: dict[str, SpacyEntities], texts: list[str]):
    """Union of the single models' forms, no more, in any order of the models and any batch."""
    found = {name: engine.entities(texts) for name, engine in engines.items()}
    union = found.pop("union")
    assert union == found.pop("turned")
    for forms, *parts in zip(union, *found.values(), strict=True):
        assert len(forms) == len(set(forms))
        assert set(forms) == {form for part in parts for form in part}


def test_two_processes_find_what_one_finds(models: dict[str, str]):
    """Sharing the texts among processes changes neither answers nor their order."""
    texts = [f"{first} helps in {second} ." for first in WORDS for second in WORDS]
    names = (models["drugs"], models["trained"])
    one = SpacyEntities(names, batch_size=8).entities(texts)
    assert one == SpacyEntities(names, batch_size=8, processes=2).entities(texts)
    assert any(one)


def test_only_the_pipes_that_entities_need_are_on(models: dict[str, str]):
    """The tagger is off, the vectors the recogniser listens to are on, the answer is the same."""
    full, ours = spacy.load(models["trained"]), SpacyModel(models["trained"]).load()
    assert ["tok2vec", "ner"] == ours.pipe_names
    text = "Aspirin lowers fever in Paris"
    found = [entity.text for entity in full(text).ents]
    assert "Aspirin" in found
    assert found == [entity.text for entity in ours(text).ents]
    assert [distinct_forms(found)] == SpacyEntities((models["trained"],)).entities([text])
    assert ["entity_ruler"] == SpacyModel(models["drugs"]).load().pipe_names


def test_the_engine_names_models_versions_and_content(models: dict[str, str], tmp_path: Path):
    """Two folders of one name and version are two engines; spaCy is named by minor version."""
    major, minor, *_ = spacy.__version__.split(".")
    name = SpacyEntities((models["drugs"], models["places"])).engine
    start = rf"spacy_entities:1:spacy-{major}\.{minor}:"
    assert re.fullmatch(start + r"en_drugs-1\.2\.3-\w{8}\+en_places-1\.2\.3-\w{8}", name)
    other = ruler(tmp_path / "drugs", ["Ibuprofen"])
    assert SpacyModel(models["drugs"]).label != SpacyModel(other).label
    again = ruler(tmp_path / "again" / "drugs", ["Ibuprofen"])
    assert SpacyModel(other).label == SpacyModel(again).label


def test_quoted_booleans_of_older_models_are_read(models: dict[str, str], tmp_path: Path):
    """Configurations of scispaCy say "False" in quotes: spaCy refuses that, we read it."""
    folder = tmp_path / "quoted"
    shutil.copytree(models["trained"], folder)
    config = (folder / "config.cfg").read_text("utf-8")
    quoted = re.sub(r"(normalize|include_static_vectors) = false", r'\1 = "False"', config)
    assert 2 == quoted.count('"False"')
    (folder / "config.cfg").write_text(quoted, "utf-8")
    with pytest.raises(ValueError, match="include_static_vectors"):
        spacy.load(folder)
    text = ["Aspirin lowers fever in Paris"]
    expected = SpacyEntities((models["trained"],)).entities(text)
    assert expected == SpacyEntities((str(folder),)).entities(text)


COMMANDS = {
    "en_core_web_sm": "python -m spacy download en_core_web_sm",
    "en_core_web_trf": "-c constraints-cpu.txt && python -m spacy download en_core_web_trf",
    "en_core_sci_lg": "ai2-s2-scispacy/releases/v0.5.4/en_core_sci_lg-0.5.4.tar.gz",
    "/no/such/folder": "folder",
}


def test_a_missing_model_says_what_to_type(models: dict[str, str]):
    """The error names the model and its own command, before any other model is loaded."""
    for name, command in COMMANDS.items():
        for names in ((name,), (models["drugs"], name)):
            with pytest.raises(EngineMissing, match=f"'{name}'") as caught:
                SpacyEntities(names).entities(["text"])
            assert command in str(caught.value)
        assert command in install_hint(name)


def changed(name: str, file: str, old: str, new: str, folder: Path) -> str:
    """A copy of a model with another text in one of its files."""
    shutil.copytree(name, folder)
    text = (folder / file).read_text("utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), "utf-8")
    return str(folder)


def test_what_a_model_needs_is_named(models: dict[str, str], tmp_path: Path):
    """A requirement in its meta, or a pipe of a package that is absent: an install command."""
    meta = json.loads((Path(models["drugs"]) / "meta.json").read_text("utf-8"))
    assert "requirements" not in meta
    needy = '"requirements": ["spacy>=3", "no-such-transformers>=0.2,<1"], "lang":'
    path = changed(models["drugs"], "meta.json", '"lang":', needy, tmp_path / "needy")
    with pytest.raises(EngineMissing, match=r'pip install "no-such-transformers>=0\.2,<1"$'):
        SpacyEntities((path,)).entities(["text"])
    other = 'factory = "no_such_transformer"'
    known = 'factory = "entity_ruler"'
    path = changed(models["drugs"], "config.cfg", known, other, tmp_path / "large")
    with pytest.raises(EngineMissing, match=r"(?s)\.\[trf\].*no_such_transformer"):
        SpacyEntities((path,)).entities(["text"])


def test_an_installed_package_is_found_by_name(models: dict[str, str], tmp_path: Path):
    """A model package is loaded by name, and labelled by its version without a hash."""
    package = tmp_path / "en_drugs"
    data = package / "en_drugs-1.2.3"
    package.mkdir()
    shutil.copytree(models["drugs"], data)
    (package / "__init__.py").write_text("raise RuntimeError('code of a model was run')\n")
    (package / "meta.json").write_bytes((data / "meta.json").read_bytes())
    program = (
        "from resources.entities.spacy_engine import SpacyEntities as S\n"
        "engine = S(('en_drugs',))\n"
        "assert engine.engine.endswith(':en_drugs-1.2.3'), engine.engine\n"
        "import sys; assert 'spacy' not in sys.modules\n"
        "assert [['aspirin']] == engine.entities(['Aspirin helps'])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=env)


def test_settings_that_cannot_work_are_refused(models: dict[str, str]):
    """No model, batch or process at once; without a GPU the error says what to install."""
    for wrong in ({"models": ()}, {"batch_size": 0}, {"processes": 0}):
        with pytest.raises(ConfigError):
            SpacyEntities(**{"models": ("m",), **wrong})
    if spacy.prefer_gpu():
        pytest.skip("spaCy can use a GPU here")
    with pytest.raises(EngineMissing, match="cupy"):
        SpacyEntities((models["drugs"],), gpu=True).entities(["Aspirin"])
