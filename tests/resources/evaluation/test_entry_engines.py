"""What stands behind entries of ``systems.toml``: endpoints, adapters, verifiers, weights here."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from decomposerl.baselines.catalogue import ENTRY_METHODS, METHODS
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.evaluation.systems import System, system_named, systems, with_entries
from decomposerl.evaluation.systems_file import parse_systems_toml
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_graph import claim_row, write_policy_of
from fault_server import MODEL, Answer, FaultServer, replying
from resources.evaluation.generation import Generated
from resources.evaluation.model import EvaluationModelResource, NamedKey
from resources.evaluation.opened_system import OpenedSystem
from resources.evaluation.served_policy import ServedModels
from resources.store.parquet import DataFolder
from resources.verifier.resource import VerifierResource
from stand_in_server import WORDS, adapter, requests_of, serving
from tiny_models import tiny_roberta

PROTOCOLS = {one.name: list(one.procedures) for one in ENTRY_METHODS if one.engine == "chat"}
RECIPES = ("tiny",)
TRACE = "<think>So.</think> <verification>Supported</verification>"
ALLOWED = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


def own(folder: Path, text: str) -> dict[str, System]:
    """The systems of a file in ``folder``."""
    entries = parse_systems_toml(text, "systems.toml", folder, PROTOCOLS, RECIPES)
    every = with_entries(systems(METHODS, RECIPES), entries, ENTRY_METHODS, "systems.toml")
    return {one.key: one for one in every}


def entry(name: str, method: str, url: str = "", **fields: object) -> str:
    """A table of the file."""
    given = {"method": method, "model": MODEL, **({"base_url": url} if url else {}), **fields}
    lines = (f"{field} = {json.dumps(value)}" for field, value in given.items())
    return "\n".join([f"[{name}]", *lines, ""])


@contextmanager
def opened(folder: Path, system: System, **fields: Any) -> Iterator[OpenedSystem]:  # noqa: ANN401 - of the resource
    """The system of an entry, with the engines of a data folder."""
    by = EvaluationModelResource(results_dir=str(folder / "results"), **fields)
    verifier = VerifierResource(results_dir=by.results_dir)
    try:
        yield by.opened(system, DataFolder(base_dir=str(folder)), verifier)
    finally:
        by.close()


def predicted(folder: Path, system: System, count: int = 2, **fields: Any) -> Generated:  # noqa: ANN401
    """Its predictions of the first claims."""
    rows = pl.DataFrame([claim_row(n) for n in range(count)], schema=BENCHMARK_CLAIMS.schema)
    with opened(folder, system, **fields) as one:
        return one.predict("fever", BENCHMARK_CLAIMS.conform(rows), 0.0, str)


def spelled(verdict: str, **chances: float) -> Answer:
    """A reply of one token with log probabilities."""
    likely = [{"token": word, "logprob": chance} for word, chance in chances.items()]
    token = {**likely[0], "top_logprobs": likely}
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": verdict}}
    return Answer(change={"choices": [choice | {"logprobs": {"content": [token]}}]})


def test_two_entries_of_one_model_do_not_share_replies(tmp_path: Path):
    """At two endpoints, or with another sampling: each is asked, and keeps its own predictions."""
    with (
        FaultServer(usual=replying("Supported")) as first,
        FaultServer(usual=replying("Refuted")) as second,
    ):
        text = entry("a", "simple", first.url) + entry("b", "simple", second.url)
        every = own(tmp_path, text + entry("c", "simple", first.url, temperature=0.5, seed=7))
        made = {name: predicted(tmp_path, every[name]).predictions for name in "abc"}
        again = predicted(tmp_path, every["a"])
        assert (4, 2) == (len(first.asked), len(second.asked))
    verdicts = {name: set(frame["verdict"]) for name, frame in made.items()}
    assert {"a": {"Supported"}, "b": {"Refuted"}, "c": {"Supported"}} == verdicts
    assert made["a"].equals(again.predictions)
    assert (0, 2) == (again.asked, again.stored)
    assert 2 == len({frame["engine"][0] for frame in made.values()})
    assert 2 == len({made["a"]["prompt_hash"][0], made["c"]["prompt_hash"][0]})
    sampled = [(one["temperature"], one["seed"]) for one in first.asked]
    assert [(0.0, 42), (0.0, 42), (0.5, 7), (0.5, 7)] == sampled


def test_a_revision_joins_entries_of_the_same_weights(tmp_path: Path):
    """A server that moved to another port is asked nothing that it answered."""
    with (
        FaultServer(usual=replying("Supported")) as old,
        FaultServer(usual=replying("Refuted")) as new,
    ):
        for url in (old.url, new.url):
            (system,) = [
                one
                for one in own(tmp_path, entry("a", "simple", url, revision="v1")).values()
                if one.entry
            ]
            made = predicted(tmp_path, system).predictions
            assert {"Supported"} == set(made["verdict"])
        assert [] == new.asked


def test_the_key_the_price_and_the_limits_are_the_entrys(tmp_path: Path):
    """The key of its variable and no other; what a call cost; tokens in place of the method's."""
    fields = {"key": "MY_KEY", "prompt_price": 100.0, "completion_price": 200, "max_tokens": 9}
    with FaultServer(usual=replying("Supported")) as served:
        every = own(tmp_path, entry("a", "simple", served.url, **fields))
        held = [NamedKey(variable=name, value=f"sk-{name}") for name in ("MY_KEY", "OTHER_KEY")]
        made = predicted(tmp_path, every["a"], entry_keys=held)
        assert {"Bearer sk-MY_KEY"} == set(served.authorizations)
        assert {9} == {one["max_tokens"] for one in served.asked}
        with pytest.raises(ConfigError, match="MY_KEY is not set"):
            predicted(tmp_path / "new", every["a"])
    assert [10 * 100e-6 + 5 * 200e-6] * 2 == made.calls["dollars"].to_list()


def test_a_limit_of_money_stops_the_run(tmp_path: Path):
    """The entry's own, of one test set."""
    fields = {"prompt_price": 1_000.0, "dollars": 0.02, "concurrency": 1}
    with FaultServer(usual=replying("Supported")) as served:
        every = own(tmp_path, entry("a", "simple", served.url, **fields))
        with pytest.raises(EngineError, match="stopped at"):
            predicted(tmp_path, every["a"], 12)


def test_few_shot_shows_eight_examples_or_as_many_as_are_wanted(tmp_path: Path):
    """Half of either label; the verdict is the last line."""
    with FaultServer(usual=replying("It says so.\n\nVerdict: Supported")) as served:
        text = entry("a", "few_shot", served.url)
        every = own(tmp_path, text + entry("b", "few_shot", served.url, demonstrations=2))
        made = predicted(tmp_path, every["a"])
        predicted(tmp_path, every["b"])
        eight, two = served.prompts[0], served.prompts[-1]
    assert {"Supported"} == set(made.predictions["verdict"])
    assert (8, 2) == (eight.count("Reply:\n"), two.count("Reply:\n"))
    before = eight.split("The examples end here")[0]
    assert (4, 4) == (before.count("Verdict: Supported"), before.count("Verdict: Refuted"))


def test_your_own_prompts_are_the_entrys(tmp_path: Path):
    """A folder beside the file."""
    (tmp_path / "words").mkdir()
    (tmp_path / "words/simple.md").write_text("<!-- section: verdict -->\n{claim}|{evidence}\n")
    with FaultServer(usual=replying("Supported")) as served:
        every = own(tmp_path, entry("a", "simple", served.url, prompts="./words"))
        predicted(tmp_path, every["a"], 1)
        assert served.prompts[0].startswith("Arlo Brin opened")


def test_a_context_is_known_through_the_entry(tmp_path: Path):
    """Longer evidence is read in part, and a server that reads fewer tokens is refused."""
    with serving(tmp_path, "--says", "Supported", "--max-model-len", "8192", model=MODEL) as url:
        text = entry("a", "simple", f"{url}/v1", context=8_192)
        every = own(tmp_path, text + entry("b", "simple", f"{url}/v1", context=9_000))
        row = claim_row(0, evidence=f"{claim_row(0)['evidence']} " + "The sea is wide. " * 3_000)
        frame = BENCHMARK_CLAIMS.conform(pl.DataFrame([row], schema=BENCHMARK_CLAIMS.schema))
        with opened(tmp_path, every["a"]) as one:
            (notes,) = one.predict("fever", frame, 0.0, str).predictions["notes"]
        assert "best_sentences" == json.loads(notes)["beyond_context"]
        with pytest.raises(EngineError, match=r"context = 8192 in \[b\] of systems.toml"):
            predicted(tmp_path, every["b"])
    assert {200} == {one["status"] for one in requests_of(tmp_path)}


def test_an_adapter_is_loaded_at_the_entrys_endpoint(tmp_path: Path):
    """Once, by the entry's name and a digest of its files; an adapter of nothing is refused."""
    adapter(tmp_path / "lora", rank=2)
    words = ("--enable-lora", "--max-lora-rank", "64", "--says", TRACE)
    with serving(tmp_path, *words, model="org/base", **ALLOWED) as url:
        at = {"url": f"{url}/v1", "model": "org/base"}
        text = entry("mine", "trace", **at, adapter="./lora")
        text += entry("none", "trace", **at, adapter="./nowhere")
        text += entry("hub", "trace", **at, adapter="no/such", adapter_revision="main")
        every = own(tmp_path, text)
        made = predicted(tmp_path, every["mine"]).predictions
        with pytest.raises(ConfigError, match=r"\[none\] adapter: .*holds no adapter_model"):
            predicted(tmp_path, every["none"])
        with pytest.raises(EngineMissing, match="hf download no/such --revision main"):
            predicted(tmp_path, every["hub"])
    assert (["Supported"] * 2, {"trace"}) == (made["verdict"].to_list(), set(made["protocol"]))
    assert made["engine"][0].startswith("chat:mine@")
    asked = requests_of(tmp_path)
    assert 1 == sum(one["path"] == "/v1/load_lora_adapter" for one in asked)
    (name,) = {one["model"] for one in asked}
    assert re.fullmatch(r"mine-[0-9a-f]{12}", name)


def test_a_server_is_started_for_an_entry(tmp_path: Path):
    """With the profile's command, its context and adapter; it ends with the run."""
    adapter(tmp_path / "lora", rank=2)
    command = [*WORDS, "--holds", str(tmp_path / "held"), "--says", TRACE]
    # The stand-in's own words come before the model, which the command line then names.
    place = ServedModels(vllm=command)
    text = entry("mine", "trace", model="org/base", runs="server", adapter="./lora", context=8_192)
    made = predicted(tmp_path, own(tmp_path, text)["mine"], entries=place).predictions
    assert ["Supported"] * 2 == made["verdict"].to_list()
    with pytest.raises(ConfigError, match="no endpoint serves"):
        predicted(tmp_path / "new", own(tmp_path, text)["mine"])


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # the fixture's
def test_a_lora_trained_here_is_the_policy_that_it_is(tmp_path: Path):
    """Ranked through the file it gives the traces of ``decomposerl-tiny``, under its own key."""
    write_policy_of(tmp_path)
    text = entry(
        *("lora", "trace"), model="./base_policy", adapter="./policy/tiny/adapter", recipe="tiny"
    )
    every = own(tmp_path, text)
    mine = predicted(tmp_path, every["lora"]).predictions
    policy = predicted(tmp_path, system_named("decomposerl-tiny", list(every.values()))).predictions
    same = ["claim_id", "verdict", "trace", "engine", "confidence_raw", "protocol", "method"]
    assert mine.select(same).equals(policy.select(same))
    assert ({"lora"}, {"decomposerl-tiny"}) == (set(mine["system"]), set(policy["system"]))


def test_a_verifier_answers_through_log_probabilities(tmp_path: Path):
    """One call a claim, with its cost; an answer that spells no word is unparsed, not failed."""
    fields = {"user": "{document}\n{claim}", "prompt_price": 1.0, "threshold": 0.8}
    script = [spelled("Yes", Yes=-0.1, No=-3.0), spelled("Yes", Yes=-0.5, No=-1.0)]
    with FaultServer(script, usual=spelled("So", So=-0.1)) as served:
        text = entry("a", "verifier", served.url, **fields, concurrency=1)
        system = own(tmp_path, text)["a"]
        made = predicted(tmp_path, system, 3)
        assert served.prompts[0].endswith(str(claim_row(0)["claim"]))
    found = made.predictions.select("verdict", "parse_status").rows()
    assert [("Supported", "parsed"), ("Refuted", "parsed"), (None, "unparsed")] == found
    assert [0.948, 0.622] == made.predictions["support_score"].drop_nulls().round(3).to_list()
    assert {"verifier"} == set(made.predictions["method"])
    tokens = made.calls["prompt_tokens"][0]
    assert 0 < tokens * 1e-6 == made.calls["dollars"][0]
    assert [1, 1, 1] == made.predictions["calls"].to_list()


def test_a_guardian_reads_the_evidence_as_a_document(tmp_path: Path):
    """Its yes is a denial."""
    fields = {"form": "documents", "supported": "no", "refuted": "yes", "max_tokens": 16}
    with FaultServer(usual=spelled("yes", yes=-0.05, no=-4.0)) as served:
        text = entry("a", "verifier", served.url, **fields)
        text += 'template = { guardian_config = { criteria_id = "groundedness" } }\n'
        made = predicted(tmp_path, own(tmp_path, text)["a"], 1)
        sent = served.asked[0]
    assert ["Refuted"] == made.predictions["verdict"].to_list()
    assert claim_row(0)["evidence"] == sent["documents"][0]["text"]
    assert {"guardian_config": {"criteria_id": "groundedness"}} == sent["chat_template_kwargs"]
    assert "continue_final_message" not in sent


def test_a_classifier_is_an_entry_too(tmp_path: Path):
    """In process; its scores are stored, so a second run loads no model."""
    tiny_roberta(tmp_path / "head")
    fields = {"form": "classifier", "model": "./head", "pair": "{document} / {claim}"}
    system = own(tmp_path, entry("a", "verifier", **fields))["a"]
    first = predicted(tmp_path, system).predictions
    assert 0 == first["support_score"].null_count()
    assert first["engine"][0].startswith("classifier:head-")
    assert first.equals(predicted(tmp_path, system).predictions)


def test_replaced_weights_of_a_started_server_are_asked_again(tmp_path: Path):
    """A model folder without an adapter: the engine has a digest of its files."""
    (tmp_path / "merged").mkdir()
    place = ServedModels(vllm=[*WORDS, "--holds", str(tmp_path / "held"), "--says", "Supported"])
    text = entry("mine", "simple", model="./merged", runs="server", context=8_192)
    system, made = own(tmp_path, text)["mine"], []
    for weights in ("first", "first", "second"):
        (tmp_path / "merged/model.safetensors").write_text(weights)
        made.append(predicted(tmp_path, system, entries=place))
    assert [2, 0, 2] == [one.asked for one in made]
    engines = {one.predictions["engine"][0] for one in made}
    assert 2 == len(engines)


def test_evidence_that_is_too_long_for_a_verifier_is_no_failed_call(tmp_path: Path):
    """It is wrong, as for a baseline; a server that reads less than is assumed is refused."""
    words = ("--says", "Yes", "--max-model-len", "600")
    row = claim_row(0, evidence="The sea is wide. " * 400)
    frame = BENCHMARK_CLAIMS.conform(pl.DataFrame([row], schema=BENCHMARK_CLAIMS.schema))
    with serving(tmp_path, *words, model=MODEL) as url:
        fields = {"user": "{document}\n{claim}", "read": "text", "max_tokens": 8}
        text = entry("a", "verifier", f"{url}/v1", **fields, context=600, chunk=4_000)
        every = own(tmp_path, text + entry("b", "verifier", f"{url}/v1", **fields))
        with opened(tmp_path, every["a"]) as one:
            (made,) = one.predict("fever", frame, 0.0, str).predictions.to_dicts()
        with pytest.raises(EngineError, match=r"32,768 are expected.*context = 600 in \[b\]"):
            predicted(tmp_path, every["b"])
    assert (None, "unparsed") == (made["verdict"], made["parse_status"])
    assert "wrong" == json.loads(made["notes"])["beyond_context"]


def test_a_verifier_that_thinks_has_room_for_it(tmp_path: Path):
    """Beside its one token; none where it does not think."""
    fields = {"user": "{document}\n{claim}", "thinking_style": "qwen", "thinking_tokens": 700}
    with FaultServer(usual=spelled("Yes", Yes=-0.1)) as served:
        text = entry("a", "verifier", served.url, **fields, thinking="on")
        every = own(tmp_path, text + entry("b", "verifier", served.url, **fields, thinking="off"))
        for name in "ab":
            predicted(tmp_path, every[name], 1)
        assert [701, 1] == [one["max_tokens"] for one in served.asked]


def test_samples_keep_their_own_temperature(tmp_path: Path):
    """The entry's is that of the one trace that counts; the limit is for all."""
    with FaultServer(usual=replying(TRACE)) as served:
        text = entry("a", "trace", served.url, temperature=0.2, max_tokens=99, concurrency=1)
        verifier = VerifierResource(results_dir=str(tmp_path / "results"))
        by = EvaluationModelResource(results_dir=str(tmp_path / "results"))
        data = DataFolder(base_dir=str(tmp_path))
        rows = pl.DataFrame([claim_row(0)], schema=BENCHMARK_CLAIMS.schema)
        try:
            one = by.opened(own(tmp_path, text)["a"], data, verifier, samples=2)
            one.predict("fever", BENCHMARK_CLAIMS.conform(rows), 0.0, str)
        finally:
            by.close()
        assert [0.2, 1.0, 1.0] == sorted(one["temperature"] for one in served.asked)
        assert {99} == {one["max_tokens"] for one in served.asked}


@pytest.mark.parametrize(
    "fields", [{"runs": "server"}, {}, {"method": "verifier", "form": "classifier"}]
)
def test_a_missing_model_folder_is_named_with_its_entry(tmp_path: Path, fields: dict[str, str]):
    """Before anything is started or loaded."""
    text = entry("mine", **{"method": "simple", "model": "./nowhere"} | fields)
    said = rf"\[mine\] model: there is no folder {tmp_path}/nowhere"
    with pytest.raises(ConfigError, match=said):
        predicted(tmp_path, own(tmp_path, text)["mine"], entries=ServedModels(vllm=WORDS))
