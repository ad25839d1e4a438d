"""What `make real` sets up around the rehearsal; the run itself needs vLLM and half an hour."""

import re
from pathlib import Path

from dagster_project.engine_choices import engine_choices
from dagster_project.profiles import known_variables
from project import ROOT
from resources.entities.resource import EntitiesResource
from studies.real_model import MODEL
from studies.real_path import environment, executable, write_entity_model


def test_every_variable_is_one_that_a_user_may_set(tmp_path: Path):
    """And every model of the profile is the small one, at the servers that were started."""
    env = environment(tmp_path, "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
    assert {name for name in env if name.startswith("DECOMPOSERL_")} <= known_variables()
    chosen = engine_choices("paper", env)
    models = {server.model for server in chosen.servers}
    assert ({MODEL}, MODEL) == (models, chosen.tokenizer)
    assert executable(tmp_path) == chosen.vllm


def test_the_entity_model_finds_capitalised_words(tmp_path: Path):
    """It is loaded as a user's own spaCy folder is."""
    write_entity_model(tmp_path / "spacy")
    resource = EntitiesResource(
        results_dir=str(tmp_path), engine="spacy", models=[str(tmp_path / "spacy")]
    )
    (found,) = resource.open().entities(["the mill of Torbeck burnt in Lund"])
    assert {"torbeck", "lund"} == {name.lower() for name in found}


def test_what_is_installed_is_pinned_by_hash():
    """Every line names one version and one file; torch comes from the Makefile."""
    for name in ("real-requirements.txt", "real-model.txt"):
        lines = (ROOT / "studies" / name).read_text("utf-8").splitlines()
        pinned = [line for line in lines if not line.startswith("#")]
        assert pinned
        for line in pinned:
            assert re.fullmatch(r"[a-z0-9-]+==\S+ --hash=sha256:[0-9a-f]{64}", line), line
            assert not re.match(r"torch(vision|audio|codec)?==", line)
