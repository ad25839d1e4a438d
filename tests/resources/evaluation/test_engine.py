"""What stands behind entries of ``systems.toml``, and what is read of claims beyond a context."""

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ClaimInput
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.evaluation.entries import parse_systems_toml
from decomposerl.evaluation.scored_claims import MOST_WORDS
from decomposerl.evaluation.systems import Model, System, systems
from decomposerl.reports.system_report import leaderboard_page
from decomposerl.schemas import BENCHMARK_CLAIMS
from decomposerl.training.evidence_view import best_sentences
from decomposerl.training.experiment import EvidenceView
from environment import having
from evaluation_graph import claim_row, materialize, write_policy_of
from evaluation_parts import ScriptedCaller, two_steps
from evaluation_runs import Predicted, frame_of_claims, predicted, spelled
from fault_server import MODEL, FaultServer, replying
from resources.chat.endpoint import EndpointConfig
from resources.evaluation.generation import ContextGuard, OpenedSystem
from resources.evaluation.local_model import context_of, load_weights
from resources.evaluation.model import EvaluationModelResource
from resources.policy_tiny.folder import CHECKPOINT
from resources.store.parquet import DataFolder, write_parquet
from resources.store.prompts import load_prompt
from resources.vllm.server import ServerFields
from stand_in_server import WORDS, adapter, requests_of, serving
from strategies import LAW
from tiny_models import tiny_roberta

RECIPES, PAIR = ("tiny",), "{document}\n{claim}"
TRACE = "<think>So.</think> <verification>Supported</verification>"
URL, AT_MAIN = "http://127.0.0.1:9/v1", {"adapter_revision": "main"}
ALLOWED = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


def own(folder: Path, text: str) -> dict[str, System]:
    """The systems of a file in ``folder``."""
    entries = parse_systems_toml(text, "systems.toml", folder, RECIPES)
    every = systems(METHODS, RECIPES, entries)
    return {one.key: one for one in every}


def entry(name: str, method: str, url: str = "", **fields: object) -> str:
    """A table of the file."""
    given = {"method": method, "model": MODEL, **({"base_url": url} if url else {}), **fields}
    lines = (f"{field} = {json.dumps(value)}" for field, value in given.items())
    return "\n".join([f"[{name}]", *lines, ""])


def by_entry(folder: Path, method: str, url: str, count: int = 2, **fields: Any) -> Predicted:  # noqa: ANN401 - of the entry
    """Predictions of an entry ``a``."""
    system = own(folder, entry("a", method, url, **fields))["a"]
    return predicted(folder, system, count)


def test_two_entries_of_one_model_do_not_share_replies(tmp_path: Path):
    """By endpoint and sampling each is asked; a revision joins entries of the same weights."""
    with (
        FaultServer(usual=replying("Supported")) as first,
        FaultServer(usual=replying("Refuted")) as second,
    ):
        text = entry("a", "simple", first.url) + entry("b", "simple", second.url)
        every = own(tmp_path, text + entry("c", "simple", first.url, temperature=0.5, seed=7))
        made = {name: predicted(tmp_path, every[name]).predictions for name in "abc"}
        again = predicted(tmp_path, every["a"])
        assert (4, 2) == (len(first.asked), len(second.asked))
        for url in (first.url, second.url):
            same = by_entry(tmp_path, "simple", url, revision="v1").predictions
            assert {"Supported"} == set(same["verdict"])
        assert (6, 2) == (len(first.asked), len(second.asked))
    verdicts = {name: set(frame["verdict"]) for name, frame in made.items()}
    assert {"a": {"Supported"}, "b": {"Refuted"}, "c": {"Supported"}} == verdicts
    assert made["a"].equals(again.predictions)
    assert (0, 2) == (again.asked, again.stored)
    assert 2 == len({frame["engine"][0] for frame in made.values()})
    assert 2 == len({made["a"]["prompt_hash"][0], made["c"]["prompt_hash"][0]})
    sampled = [(one["temperature"], one["seed"]) for one in first.asked[:4]]
    assert [(0.0, 42), (0.0, 42), (0.5, 7), (0.5, 7)] == sampled


def test_the_key_the_price_and_the_limits_are_the_entrys(tmp_path: Path):
    """Its variable's key alone, a call's cost, tokens for the method's, a limit of money."""
    fields = {"key": "MY_KEY", "prompt_price": 100.0, "completion_price": 200, "max_tokens": 9}
    with FaultServer(usual=replying("Supported")) as served:
        dear = {"prompt_price": 1_000.0, "dollars": 0.02, "concurrency": 1}
        text = entry("a", "simple", served.url, **fields) + entry("b", "simple", served.url, **dear)
        every = own(tmp_path, text)
        with having(MY_KEY="sk-MY_KEY", OTHER_KEY="sk-OTHER_KEY"):
            made = predicted(tmp_path, every["a"])
        assert {"Bearer sk-MY_KEY"} == set(served.authorizations)
        assert {9} == {one["max_tokens"] for one in served.asked}
        with pytest.raises(ConfigError, match="MY_KEY is not set"):
            predicted(tmp_path / "new", every["a"])
        with pytest.raises(EngineError, match="stopped at"):
            predicted(tmp_path, every["b"], 12)
    assert [10 * 100e-6 + 5 * 200e-6] * 2 == made.calls["dollars"].to_list()


def test_prompts_are_the_entrys(tmp_path: Path):
    """As many examples as wanted, half of either label; or a folder beside the file."""
    with FaultServer(usual=replying("It says so.\n\nVerdict: Supported")) as served:
        made = by_entry(tmp_path, "few_shot", served.url)
        by_entry(tmp_path, "few_shot", served.url, demonstrations=2)
        eight, two = served.prompts[0], served.prompts[-1]
    assert {"Supported"} == set(made.predictions["verdict"])
    assert (8, 2) == (eight.count("Reply:\n"), two.count("Reply:\n"))
    before = eight.split("The examples end here")[0]
    assert (4, 4) == (before.count("Verdict: Supported"), before.count("Verdict: Refuted"))
    (tmp_path / "words").mkdir()
    (tmp_path / "words/simple.md").write_text("<!-- section: verdict -->\n{claim}|{evidence}\n")
    with FaultServer(usual=replying("Supported")) as served:
        by_entry(tmp_path, "simple", served.url, 1, prompts="./words")
        assert served.prompts[0].startswith("Arlo Brin opened")


@pytest.mark.parametrize(
    ("method", "written"),
    [("claimdecomp", "Is it old? | yes"), ("chen_2024", "1. Is it old?")],
)
def test_a_trained_decomposer_writes_the_questions(method: str, written: str, tmp_path: Path):
    """In its own words, and nothing else; without one the method's model is prompted for them."""
    yes, questions = (FaultServer(usual=replying(text)) for text in ("Yes", written))
    with yes as rest, questions as trained:
        text = entry("a", method, rest.url)
        own_words = {"model": MODEL, "base_url": trained.url, "user": "Split: {claim}"}
        lines = (f"{field} = {json.dumps(value)}" for field, value in own_words.items())
        plain = own(tmp_path, text)["a"]
        system = own(tmp_path, "\n".join([text, "[a.decomposer]", *lines, ""]))["a"]
        made, prompted = predicted(tmp_path, system, 1), predicted(tmp_path, plain, 1)
        assert set(trained.prompts) == {f"Split: {claim_row(0)['claim']}"}
        assert not any("Split:" in prompt for prompt in rest.prompts)
        assert all("Is it old?" in prompt for prompt in rest.prompts[:1])
    assert plain.entry_digest != system.entry_digest
    assert 2 == len({one.predictions["engine"][0] for one in (made, prompted)})
    assert "chat:" in made.predictions["engine"][0].partition(" questions=")[2]


def test_an_adapter_that_is_not_there_is_named_with_its_entry(tmp_path: Path):
    """A folder without one; the command that gets one of the hub."""
    at = {"url": URL, "model": "org/base"}
    text = entry("none", "trace", **at, adapter="./nowhere")
    every = own(tmp_path, text + entry("hub", "trace", **at, adapter="no/such", **AT_MAIN))
    with pytest.raises(ConfigError, match=r"\[none\] adapter: .*holds no adapter_model"):
        predicted(tmp_path, every["none"])
    with pytest.raises(EngineMissing, match="hf download no/such --revision main"):
        predicted(tmp_path, every["hub"])


def test_an_adapter_that_a_server_does_not_apply_is_refused(tmp_path: Path):
    """Loaded, or listed since its start: one prompt has the log probabilities of the base."""
    folder = adapter(tmp_path / "lora", rank=2)
    tensors = {f"layers.{n}.lora_A.weight": np.zeros((2, 4), "f4") for n in range(4)}
    save_file(tensors, folder / "adapter_model.safetensors", {"note": "unapplied"})
    words = ("--enable-lora", "--max-lora-rank", "64", "--says", TRACE)
    with serving(tmp_path, *words, model="org/base", **ALLOWED) as url:
        text = entry("mine", "trace", f"{url}/v1", model="org/base", adapter="./lora")
        system = own(tmp_path, text)["mine"]
        for _ in range(2):
            with pytest.raises(EngineError, match=r"log probabilities .*: layers\.0.*layers\.2"):
                predicted(tmp_path, system)


def test_a_server_is_started_for_an_entry(tmp_path: Path):
    """With its context and adapter, until the run ends; replaced weights are asked again."""
    adapter(tmp_path / "lora", rank=2)
    command = [*WORDS, "--holds", str(tmp_path / "held"), "--says", TRACE]
    # The stand-in's own words come before the model, which the command line then names.
    place = ServerFields(vllm=command)
    text = entry("mine", "trace", model="org/base", runs="server", adapter="./lora", context=8_192)
    made = predicted(tmp_path, own(tmp_path, text)["mine"], server=place).predictions
    assert ["Supported"] * 2 == made["verdict"].to_list()
    with pytest.raises(ConfigError, match="no endpoint serves"):
        predicted(tmp_path / "new", own(tmp_path, text)["mine"])
    (tmp_path / "merged").mkdir()
    place = ServerFields(vllm=[*WORDS, "--holds", str(tmp_path / "held"), "--says", "Supported"])
    text = entry("mine", "simple", model="./merged", runs="server", context=8_192)
    system, made = own(tmp_path, text)["mine"], []
    for weights in ("first", "first", "second"):
        (tmp_path / "merged/model.safetensors").write_text(weights)
        made.append(predicted(tmp_path, system, server=place))
    assert [2, 0, 2] == [one.asked for one in made]
    engines = {one.predictions["engine"][0] for one in made}
    assert 2 == len(engines)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # the fixture's
def test_a_lora_trained_here_is_the_policy_that_it_is(tmp_path: Path):
    """Ranked through the file it gives the traces of ``decomposerl-tiny``, under its own key."""
    write_policy_of(tmp_path)
    fields = {"model": "./base_policy", "adapter": "./policy/tiny/adapter", "recipe": "tiny"}
    mine = by_entry(tmp_path, "trace", "", **fields).predictions
    policy = predicted(tmp_path, "decomposerl-tiny").predictions
    same = ["claim_id", "verdict", "trace", "engine", "confidence_raw", "protocol", "method"]
    assert mine.select(same).equals(policy.select(same))
    assert ({"a"}, {"decomposerl-tiny"}) == (set(mine["system"]), set(policy["system"]))


def test_a_verifier_answers_through_log_probabilities(tmp_path: Path):
    """With its cost; a word that is none is unparsed. A guardian reads a document: yes denies."""
    fields = {"user": PAIR, "prompt_price": 1.0, "threshold": 0.8, "concurrency": 1}
    script = [spelled(Yes=-0.1, No=-3.0), spelled(Yes=-0.5, No=-1.0)]
    with FaultServer(script, usual=spelled(So=-0.1)) as served:
        made = by_entry(tmp_path, "verifier", served.url, 3, **fields)
        assert served.prompts[0].endswith(str(claim_row(0)["claim"]))
    found = made.predictions.select("verdict", "parse_status").rows()
    assert [("Supported", "parsed"), ("Refuted", "parsed"), (None, "unparsed")] == found
    assert [0.948, 0.622] == made.predictions["support_score"].drop_nulls().round(3).to_list()
    assert {"verifier"} == set(made.predictions["method"])
    tokens = made.calls["prompt_tokens"][0]
    assert 0 < tokens * 1e-6 == made.calls["dollars"][0]
    assert [1, 1, 1] == made.predictions["calls"].to_list()
    fields = {"form": "documents", "supported": "no", "refuted": "yes", "max_tokens": 16}
    with FaultServer(usual=spelled(yes=-0.05, no=-4.0)) as served:
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
    first = by_entry(tmp_path, "verifier", "", **fields).predictions
    assert 0 == first["support_score"].null_count()
    assert first["engine"][0].startswith("classifier:head-")
    assert first.equals(by_entry(tmp_path, "verifier", "", **fields).predictions)


def test_evidence_that_is_too_long_for_a_verifier_is_no_failed_call(tmp_path: Path):
    """It is wrong, as for a baseline; a server that reads less than is assumed is refused."""
    words = ("--says", "Yes", "--max-model-len", "600")
    frame = frame_of_claims(claim_row(0, evidence="The sea is wide. " * 400))
    with serving(tmp_path, *words, model=MODEL) as url:
        fields = {"user": PAIR, "read": "text", "max_tokens": 8}
        text = entry("a", "verifier", f"{url}/v1", **fields, context=600, chunk=4_000)
        every = own(tmp_path, text + entry("b", "verifier", f"{url}/v1", **fields))
        (made,) = predicted(tmp_path, every["a"], frame).predictions.to_dicts()
        with pytest.raises(EngineError, match=r"32,768 are expected.*context = 600 in \[b\]"):
            predicted(tmp_path, every["b"])
    assert (None, "unparsed") == (made["verdict"], made["parse_status"])
    assert "wrong" == json.loads(made["notes"])["beyond_context"]


def test_limits_are_of_what_is_asked(tmp_path: Path):
    """A thought has room beside its verdict; a trace is as warm and long as its entry says."""
    fields = {"user": PAIR, "thinking_style": "qwen", "thinking_tokens": 700}
    with FaultServer(usual=spelled(Yes=-0.1)) as served:
        for thinking in ("on", "off"):
            by_entry(tmp_path, "verifier", served.url, 1, **fields, thinking=thinking)
        assert [701, 1] == [one["max_tokens"] for one in served.asked]
    fields = {"temperature": 0.2, "max_tokens": 99, "concurrency": 1}
    with FaultServer(usual=replying(TRACE)) as served:
        by_entry(tmp_path, "trace", served.url, 1, **fields)
        assert [(0.2, 99)] == [(one["temperature"], one["max_tokens"]) for one in served.asked]


def test_a_missing_model_folder_is_named_with_its_entry(tmp_path: Path):
    """Before anything is started or loaded."""
    cases = {"simple": ({"runs": "server"}, {}), "verifier": ({"form": "classifier"},)}
    for method, fields in [(name, one) for name, every in cases.items() for one in every]:
        text = entry("mine", method, model="./nowhere", **fields)
        with pytest.raises(ConfigError, match=rf"\[mine\] model: .*{tmp_path}/nowhere"):
            predicted(tmp_path, own(tmp_path, text)["mine"], server=ServerFields(vllm=WORDS))


OPEN, RULES = "simple-qwen2.5-7b-faithful", "simple-rules-faithful"
QWEN, CONTEXT = "Qwen/Qwen2.5-7B-Instruct", 8_192
FILLER = "The town had a market on the river where {} fairs were held in spring."
COUNT, LONG = 8, {2, 5}  # a quarter of the claims, far more than may fail


def claims(lines: int = 900) -> pl.DataFrame:
    """Claims of which those in ``LONG`` have their evidence in the middle of a long text."""
    rows = []
    for number in range(COUNT):
        row = claim_row(number)
        if number in LONG:
            text = [FILLER.format(f"{n}") for n in range(lines)]
            text.insert(lines // 2, str(row["evidence"]).split(". ", maxsplit=1)[0] + ".")
            row |= {"evidence": " ".join(text), "passages": text}
        rows.append(row)
    return frame_of_claims(*rows)


TOO_MANY_WORDS = MOST_WORDS // len(FILLER.split()) + 1


class Server(NamedTuple):
    """A stand-in that reads ``CONTEXT`` tokens, with its folder."""

    url: str
    folder: Path

    def by(self, rule: str, context: int = CONTEXT) -> dict[str, Any]:
        """Fields of an evaluation of open models there."""
        place = EndpointConfig(base_url=[self.url], context=context, continues=True)
        return {"beyond_context": rule, "open_models": place}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, says = tmp_path_factory.mktemp("server"), "1. Did he open it?\nVerdict: Supported"
    with serving(folder, "--says", says, "--max-model-len", str(CONTEXT), model=QWEN) as url:
        yield Server(f"{url}/v1", folder)


@pytest.fixture
def server(running: Server) -> Server:
    """The server before its first request."""
    (running.folder / "held.requests").write_text("")
    return running


def beyond(made: Predicted) -> list[str | None]:
    """The note of each claim."""
    return [json.loads(notes).get("beyond_context") for notes in made.predictions["notes"]]


def expected(done: str) -> list[str | None]:
    return [done if number in LONG else None for number in range(COUNT)]


@pytest.mark.parametrize("key", [OPEN, "chen_2024-qwen2.5-7b-faithful"])
def test_the_best_sentences_are_read_up_to_the_budget(server: Server, tmp_path: Path, key: str):
    """No call is refused, every claim has its verdict, and a finished run asks nothing."""
    by = server.by("best_sentences")
    made = predicted(tmp_path, key, claims(), **by)
    assert expected("best_sentences") == beyond(made)
    assert "failed" not in made.predictions["parse_status"].to_list()
    asked = requests_of(server.folder)
    assert {200} == {one["status"] for one in asked}
    most = max(one["prompt_tokens"] for one in asked)
    assert CONTEXT // 5 < most  # it is not cut more than the room for replies needs
    again = predicted(tmp_path, key, claims(), **by)
    assert (COUNT, 0) == (made.asked, again.asked)
    assert made.predictions.equals(again.predictions)
    assert asked == requests_of(server.folder)


def test_without_a_guard_the_server_refuses(server: Server, tmp_path: Path):
    """Where the context is not known, a refused claim is wrong and asked again by the next run."""
    own = EndpointConfig(base_url=[server.url], model=QWEN)
    made = predicted(tmp_path, "simple-endpoint-faithful", claims(), endpoint=own)
    assert expected("wrong") == beyond(made)
    parsed = made.predictions["parse_status"].to_list()
    assert ["unparsed" if n in LONG else "parsed" for n in range(COUNT)] == parsed
    assert len(LONG) == sum(one["status"] == 400 for one in requests_of(server.folder))
    assert made.predictions["reply"][min(LONG)].startswith("too_long: HTTP 400")


def test_wrong_makes_no_call(server: Server, tmp_path: Path):
    """Another rule asks after all; a server that reads less than expected is refused."""
    made = predicted(tmp_path, OPEN, claims(), **server.by("wrong"))
    assert expected("wrong") == beyond(made)
    assert (
        COUNT - len(LONG) == len(requests_of(server.folder)) == made.predictions["verdict"].count()
    )
    read = predicted(tmp_path, OPEN, claims(), **server.by("best_sentences"))
    assert len(LONG) == read.asked  # the others have the key that they had
    assert COUNT == read.predictions["verdict"].count()
    with pytest.raises(EngineError, match=r"DECOMPOSERL_EVALUATION__CONTEXT=8192") as caught:
        predicted(tmp_path / "less", OPEN, claims(), **server.by("wrong", context=0))
    assert "--max-model-len 32768" in str(caught.value)


def test_the_leaderboard_counts_them(server: Server, tmp_path: Path):
    """In scores, on the leaderboard and below it; a run with a quarter of them succeeds."""
    write_parquet(claims(), tmp_path / "benchmark/fever.parquet")
    write_parquet(BENCHMARK_CLAIMS.empty(), tmp_path / "benchmark/wice.parquet")
    by = EvaluationModelResource(
        results_dir=str(tmp_path / "results"), **server.by("best_sentences")
    )
    assert materialize(tmp_path, OPEN, "fever", engines={"evaluation_model": by}).success
    assert materialize(tmp_path).success
    folder = DataFolder(base_dir=str(tmp_path))
    scores = folder.read(f"scores/fever/{OPEN}").filter(metric="beyond_context_rate")
    assert [(100 * len(LONG) / COUNT, COUNT)] == scores.select("score", "rows").rows()
    board = folder.read("leaderboard").filter(system=OPEN)
    text = " ".join(leaderboard_page(board, {"fever": "FEVER"}).split())
    assert f"{OPEN} on FEVER ({len(LONG)})." in text


def test_drop_is_by_words_and_for_every_system(tmp_path: Path):
    """Above 16,000 words, as in the authors' code; dropped claims are in no score."""
    long = claims(TOO_MANY_WORDS)
    write_parquet(long, tmp_path / "benchmark/fever.parquet")
    results = str(tmp_path / "results")
    by = EvaluationModelResource(results_dir=results, beyond_context="drop")
    assert materialize(tmp_path, RULES, "fever", engines={"evaluation_model": by}).success
    folder = DataFolder(base_dir=str(tmp_path))
    notes = [json.loads(one) for one in folder.read(f"predictions/fever/{RULES}")["notes"]]
    assert expected("drop") == [one.get("beyond_context") for one in notes]
    rows = folder.read(f"scores/fever/{RULES}").filter(slice="all").select("metric", "rows")
    counted = dict(rows.iter_rows())
    assert COUNT - len(LONG) == counted["balanced_accuracy"] == counted["parse_rate"]
    assert COUNT == counted["beyond_context_rate"]
    short = predicted(tmp_path, RULES, claims(), beyond_context="drop")
    assert {None} == set(beyond(short))


def test_a_policy_in_process_has_the_context_of_its_base(tmp_path: Path):
    """Read from the configuration, before any weights; unknown where there is none."""
    (tmp_path / "config.json").write_text("[]", "utf-8")
    with chdir(tmp_path):  # a file of the working folder belongs to no model
        assert 0 == context_of(Endpoint())
    model, _ = load_weights(base := Endpoint(model=str(CHECKPOINT)))
    assert model.config.max_position_embeddings == context_of(base) > 0
    assert 0 == context_of(Endpoint(model="org/none"))


def test_a_claim_that_fits_is_not_touched():
    """The very question; of a view too long a sentence goes, and without one it is wrong."""
    guard = ContextGuard("best_sentences", Endpoint(context=4_000), load_prompt("simple"), 100)
    short = ClaimInput("It rained.", "It rained on Monday.", ("It rained on Monday.",))
    assert (short, None) == guard.fitted(short)
    endless = ClaimInput("It rained.", "rain" * 9_000)
    assert (None, "wrong") == guard.fitted(endless)
    line, other = "Rosa Bell painted boats.", f"Rosa Bell {'sailed ' * 900}home."
    claim, view = "Rosa Bell painted.", EvidenceView(2)
    guard = ContextGuard(
        "best_sentences", Endpoint(context=2_000), load_prompt("simple"), 100, view=view
    )
    far = ClaimInput(claim, "\n".join([line, *(FILLER.format(n) for n in range(900))]))
    assert (far, None) == guard.fitted(far)
    both = ClaimInput(claim, f"{line}\n{other}")
    assert (ClaimInput(claim, line), "best_sentences") == guard.fitted(both)
    assert guard.fitted(far) != replace(guard, view=None).fitted(far)


def test_claims_without_a_call_are_handed_over_last(tmp_path: Path):
    """Each with the note of what was done with it; the results keep the order of the claims."""
    endless, short = ClaimInput("It rained.", "rain" * 9_000), ClaimInput("It rained.", "It did.")
    guard = ContextGuard("wrong", Endpoint(context=4_000), load_prompt("simple"), 100)
    named = System("two-steps", "Two steps", Model("scripted", "scripted", "open"), "faithful")
    system = OpenedSystem(named, two_steps, "simple", ScriptedCaller(), tmp_path, guard)
    seen = list(system.results({"a": endless, "b": short}))
    notes = [one.verification.notes.get("beyond_context") for one in seen]
    assert [("b", None), ("a", "wrong")] == [
        *zip([one.claim_id for one in seen], notes, strict=True)
    ]
    assert ["Supported", None] == [one.verification.verdict for one in seen]
    assert (1, 0) == (system.calls, system.hits)


@LAW
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 200))
def test_the_budget_holds_and_the_order_is_the_documents(sizes: list[int], budget: int):
    """Costs sum to the budget at most; sentences keep their order; a larger budget loses none."""
    lines = [f"Line{n} " + "word " * size + "." for n, size in enumerate(sizes)]

    def cost(texts: list[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    kept = best_sentences("Line3 is long.", "\n".join(lines), budget, cost)
    assert sum(cost(kept)) <= budget
    assert kept == [line.strip() for line in lines if line.strip() in kept]
    everything = best_sentences("Line3 is long.", "\n".join(lines), 10_000, cost)
    assert [line.strip() for line in lines] == everything
