"""The entities engine beside the package scispacy, in the environment that has it."""

import json
import subprocess
from pathlib import Path

import pytest

from project import ROOT
from resources.entities.spacy_engine import SpacyEntities

PYTHON = ROOT / ".scispacy/bin/python"
MAKES = """
import sys
import spacy
from scispacy.custom_tokenizer import combined_rule_tokenizer
for name, made in (("plain", None), ("scientific", combined_rule_tokenizer)):
    pipeline = spacy.blank("en")
    pipeline.tokenizer = made(pipeline) if made else pipeline.tokenizer
    words = ("p38-mediated", "SBMA")
    rules = [{"label": "ENTITY", "pattern": [{"TEXT": word}]} for word in words]
    pipeline.add_pipe("entity_ruler").add_patterns(rules)
    pipeline.to_disk(f"{sys.argv[1]}/{name}")
"""
ASKS = """
import json, sys
from resources.entities.spacy_engine import SpacyEntities
engine = SpacyEntities((sys.argv[1],))
print(json.dumps([engine.engine, engine.entities(sys.argv[2:])]))
"""
TEXTS = ["The p38-mediated response was seen.", "Muscular atrophy (SBMA) is inherited."]
FORMS = {"plain": [[], ["sbma"]], "scientific": [["p38-mediated"], ["sbma"]]}


@pytest.mark.filterwarnings("ignore:Possible set:FutureWarning")  # of its expressions
@pytest.mark.skipif(not PYTHON.exists(), reason="make workshop-test makes .scispacy")
def test_a_pipeline_with_scispacys_tokenizer_gives_the_same_forms_there_and_here(tmp_path: Path):
    """There with the package and numpy 1, here with spaCy alone; its tokenizer decides a form."""

    def there(*words: object) -> str:
        command = [str(PYTHON), "-c", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)}
        )
        return done.stdout

    there(MAKES, tmp_path)
    for name, forms in FORMS.items():
        here = SpacyEntities((str(tmp_path / name),))
        answered = json.loads(there(ASKS, tmp_path / name, *TEXTS))
        assert [here.engine, here.entities(TEXTS)] == answered
        assert forms == answered[1]
