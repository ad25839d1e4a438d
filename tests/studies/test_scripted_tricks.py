"""Scripted tricks: their signs, what they earn, those in a run's log, and the page of both."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import TrainingError
from decomposerl.judge.call import Judge, JudgeCall, Ruling
from decomposerl.replies.abstention import abstains
from decomposerl.reports.tables import markdown_text
from decomposerl.rewards.reward import Signals
from decomposerl.rewards.scoring import reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import SILVER_DECOMPOSED
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from decomposerl.training.curves import CurvePoint, curve_rows
from decomposerl.training.experiments import experiment
from fakes import BagOfWordsEmbedder
from project import ROOT
from resources.judge.rule_judge import RuleJudge, clean
from resources.store.parquet import DataFolder, write_parquet
from resources.training.data import Completion, rollouts_of
from resources.training.rollout_log import RolloutLog, StepBatch
from strategies import example_row, frame_of
from studies.trick_found import found_figure, found_markdown, health_markdown
from studies.trick_page import main
from studies.trick_page import scripted as profile_traces
from studies.trick_report import (
    READINGS,
    paid_and_noticed_markdown,
    trick_table,
    tricks_figure,
)
from studies.trick_runs import (
    ScriptedTraces,
    found_tricks,
    known_claims,
    scripted_traces,
    sign_table,
)
from studies.trick_scripts import TRICKS, KnownClaim, Trick, honest, tricks_in
from studies.trick_signs import Observed

MILL = (
    "The {0} mill grinds oats for the valley. The wheel of the {0} mill is made of larch. "
    "Visitors come in summer. The {0} mill stands beside the river Osk."
)
KEY = "ab" * 8
NAMES = ("Torbeck", "Ilva", "Marrek", "Nolda", "Perrin", "Quill")
THIRTY = tuple(f"{one}{two}" for one in NAMES for two in ("", "ow", "ard", "een", "by"))


def pool(names: tuple[str, ...] = NAMES) -> pl.DataFrame:
    """Claims about mills: the first is borne out, the second has one wrong part, and so on."""
    rows = [
        example_row(
            claim=f"The {name} mill grinds oats and its wheel is made of {stuff}.",
            evidence=MILL.format(name),
            label=label,
            questions=[f"What does the {name} mill grind?", f"What is the {name} wheel made of?"],
        )
        for at, name in enumerate(names)
        for label, stuff in [(("Supported", "larch"), ("Refuted", "bronze"))[at % 2]]
    ]
    return frame_of(SILVER_DECOMPOSED, rows)


def scripted(names: tuple[str, ...] = NAMES, judge: Judge | None = None) -> ScriptedTraces:
    """Every script on every claim, by the rule judge unless another one is given."""
    known = known_claims(pool(names), RuleJudge())
    return scripted_traces(known, judge or RuleJudge(), BagOfWordsEmbedder())


def write_run(data: Path, steps: int) -> None:
    """A run whose policy is honest at first and dodges from half of its steps on."""
    folder = data / "policy/tiny_long"
    write_parquet(pool(), folder / f"inputs/{KEY}/claims.parquet")
    (folder / "run.json").write_text(
        json.dumps({"key": KEY, "attempts": [{"attempt": 1, "resumed_from": 0}]}), "utf-8"
    )
    known, dodge = known_claims(pool(), RuleJudge()), TRICKS[8]
    assert dodge.name == "dodge"
    log = RolloutLog(folder, KEY, 1)
    for step, write in ((0, honest), (steps, dodge.write)):
        log.write(step_batch(step, known, (write,)), "held_out_sampled")
    for step in range(steps):
        write = dodge.write if step >= steps // 2 else honest
        sampled = step_batch(step, [known[step % len(known)]], (honest, write))
        log.write(sampled)
        points = {"truncated": CurvePoint(0.5 if step else 0.0)}
        log.write_curves(step, "train", curve_rows(KEY, "tiny_long", step, "train", points))


def step_batch(
    step: int, known: Sequence[KnownClaim], scripts: Sequence[Callable[[KnownClaim], str]]
) -> StepBatch:
    """Each claim with each script, rewarded."""
    batch = [completion(one, write) for one in known for write in scripts]
    rollouts = rollouts_of(batch, len(scripts))
    judged = reward_rollouts(rollouts, RuleJudge(), BagOfWordsEmbedder(), RewardSettings())
    return StepBatch(step, batch, judged)


def completion(known: KnownClaim, write: Callable[[KnownClaim], str]) -> Completion:
    """The script's trace as if it had been sampled."""
    return Completion(
        *(known.claim_id, known.claim, known.evidence, known.label, 2, "hover"),
        labelled=True,
        prompt_digest="0" * 64,
        prompt_tokens=9,
        tokens=(1, 2),
        text=write(known),
        truncated=False,
    )


CLAIM = "The Torbeck mill grinds oats and its wheel is made of bronze."
EVIDENCE = (
    "The Torbeck mill grinds oats for the valley. The wheel of the Torbeck mill is made of larch. "
    "Visitors come in summer. The mill stands beside the Osk."
)
KNOWN = KnownClaim(
    "a",
    CLAIM,
    EVIDENCE,
    "Refuted",
    ("What does the Torbeck mill grind?", "What is the wheel of the mill made of?"),
    tuple(EVIDENCE.split(". ")[:2]),
)
MADE_UP = "<question>When was the mill built?</question><answer>I don't know.</answer>"
WHEEL = "<question>What is the wheel made of?</question><answer>It is made of larch.</answer>"


def observed(text: str, *, answerable: bool = True) -> Observed:
    """A rollout of the claim; ``answerable`` is the judge's word on every question."""
    trace = parse_trace(text)
    silent = tuple(abstains(cycle.answer) for cycle in trace.cycles)
    every = len(trace.cycles)
    rollout = Rollout("a", 0, CLAIM, EVIDENCE, trace, "Refuted", 2)
    addressed = tuple(clean(f"{one.question} {one.answer}").orders for one in trace.cycles)
    no = (False,) * every
    signals = Signals(
        "Refuted", ("Refuted",) * every, (answerable,) * every, (no,) * every, no, silent
    )
    return Observed(rollout, signals, addressed)


def shown(text: str, *, answerable: bool = True) -> set[str]:
    return {
        name for name, there in tricks_in(observed(text, answerable=answerable)).items() if there
    }


@pytest.mark.parametrize("trick", TRICKS, ids=lambda one: one.name)
@pytest.mark.parametrize("label", ["Supported", "Refuted"])
def test_each_script_shows_its_own_sign_and_ends_with_the_label(trick: Trick, label: Verdict):
    """Whatever the label: the trace has the sign, and its last verdict is the label."""
    known = KnownClaim("a", CLAIM, EVIDENCE, label, KNOWN.questions, KNOWN.quotes)
    text = trick.write(known)
    assert trick.name in shown(text)
    blocks = [one for one in parse_trace(text).blocks if one.kind == "verification"]
    assert label == blocks[-1].text


def test_the_honest_trace_shows_no_sign():
    """Quotations, and an abstention where the document has no answer."""
    assert set() == shown(honest(KNOWN))
    unknown = KnownClaim("a", CLAIM, EVIDENCE, "Refuted", KNOWN.questions, (KNOWN.quotes[0], None))
    assert "<answer>I don't know.</answer>" in honest(unknown)
    assert set() == shown(honest(unknown), answerable=False)


def test_an_abstention_is_a_dodge_only_where_the_judge_finds_an_answer():
    """The same words are honest where the document is silent."""
    text = f"{WHEEL}<question>Is the wheel bronze?</question><answer>I don't know.</answer>"
    assert "dodge" in shown(text)
    assert "dodge" not in shown(text, answerable=False)


def test_what_is_near_a_trick_and_none():
    """One verdict twice, a part abstained on, twice n* questions and the like are no tricks."""
    about = MADE_UP.replace("When was the mill built", "Is the wheel made of bronze")
    other = WHEEL.replace("larch", "larch wood").replace("What", "Of what")
    near = {
        "both_verdicts": f"{WHEEL}<verification>Refuted</verification>" * 2,
        "fillers": WHEEL + about,
        "question_repeated": WHEEL + other,
        "one_question": f"{WHEEL}{MADE_UP}",
        "flood": f"{WHEEL}{MADE_UP}" * 2,
        "pieces_echoed": WHEEL,
        "bare_answers": WHEEL.replace("It is", "I don't know. It is not known"),
        "hidden_claim": f"{MADE_UP}{MADE_UP}",
    }
    assert [] == [name for name, text in near.items() if name in shown(text, answerable=False)]


def test_titles_and_names_are_distinct():
    """They are the rows of tables."""
    assert len(TRICKS) == len({one.name for one in TRICKS}) == len({one.title for one in TRICKS})


class Failing(RuleJudge):
    """Has no ruling on correctness."""

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """The rules' rulings but for these."""
        rulings = super().judge(calls)
        return [
            Ruling(None, "no reply") if call.task == "correctness" else ruling
            for call, ruling in zip(calls, rulings, strict=True)
        ]


def test_quotes_are_sentences_of_the_evidence_where_the_judge_finds_an_answer():
    """Nearest by words, or none; without a ruling there is no value to compare, not 0."""
    rows = pool(NAMES[:1]).with_columns(
        questions=pl.lit(["What does the Torbeck mill grind?", "Who owns the moon of Saturn?"])
    )
    (known,) = known_claims(rows, RuleJudge())
    assert ("The Torbeck mill grinds oats for the valley.", None) == known.quotes
    traces = scripted(judge=Failing())
    table = trick_table({"paper": traces.rewards(RewardSettings())}, traces.engine)
    assert {(0, None)} == set(table.filter(reward="joint").select("claims", "gain").rows())
    assert {len(NAMES)} == set(table.filter(reward="coverage")["claims"])


def readings_table(traces: ScriptedTraces) -> pl.DataFrame:
    rewards = {name: traces.rewards(settings) for name, settings in READINGS.items()}
    return trick_table(rewards, traces.engine)


@pytest.fixture(scope="module")
def few() -> ScriptedTraces:
    """Every script on the claims of six mills."""
    return scripted()


@pytest.fixture(scope="module")
def table(few: ScriptedTraces) -> pl.DataFrame:
    return readings_table(few)


@pytest.fixture(scope="module")
def wide() -> pl.DataFrame:
    """The table of thirty mills."""
    return readings_table(scripted(THIRTY))


def test_the_table_compares_each_trick_with_the_honest_trace(
    few: ScriptedTraces, table: pl.DataFrame
):
    """By reading and reward: the paper's pays some tricks more than honesty, the strict none."""
    counts = table.group_by("reading").len()["len"].to_list()
    assert {8 * len(TRICKS)} == set(counts)
    assert {few.engine} == set(table["engine"])
    gains = table.select(pl.col("paid") - pl.col("honest")).to_series()
    assert gains.to_list() == pytest.approx(table["gain"].to_list(), abs=1e-9)
    labelled = table.filter(pl.col("trick") != "both_verdicts", reward="verification")
    assert {0.0} == set(labelled["gain"])
    assert {None} == set(labelled["low"])  # no interval where all differences are equal
    totals = table.filter(reward="total")
    paying = {
        name: set(totals.filter(pl.col("gain") > 0, reading=name)["trick"]) for name in READINGS
    }
    assert paying["strict"] == set()
    assert "claim_copied" in paying["paper"]
    dodge = totals.filter(trick="dodge").select("reading", "gain").rows()
    assert dict(dodge)["literal"] > dict(dodge)["paper"]


def test_intervals_need_thirty_claims_that_differ(
    few: ScriptedTraces, table: pl.DataFrame, wide: pl.DataFrame
):
    """Few would be too narrow; thirty enclose the mean difference, marked where it is above 0."""
    assert {None} == set(table["low"])
    bounded = wide.filter(pl.col("low").is_not_null(), reading="paper")
    assert bounded.height
    assert bounded.select(pl.col("gain").is_between("low", "high").all()).item()
    lines = paid_and_noticed_markdown(wide, sign_table(few, RewardSettings())).splitlines()
    assert len(TRICKS) + 2 == len(lines)
    pays = wide.filter(pl.col("low") > 0, reward="total").height
    assert pays == sum(line.count("\\*") for line in lines if "n\\*" not in line) > 0
    assert tricks_figure(wide).png.startswith(b"\x89PNG")


def test_each_sign_sees_its_script_and_few_health_rules_object(few: ScriptedTraces):
    """Only tricks that change the number of questions are seen by the rules, on that number."""
    table = sign_table(few, RewardSettings())
    seen = dict(table.select("trick", "seen").rows())
    assert {1.0} == set(seen.values())
    assert {0.0} == set(table["false_alarms"])
    rules = {name: set(rules) for name, rules in table.select("trick", "health_rules").rows()}
    assert {"question_drift", "question_count"} == rules["no_question"]
    assert set() == rules["dodge"] == rules["order_to_judge"] == rules["bare_answers"]


def test_a_runs_tricks_are_counted_by_step_with_what_they_earned(tmp_path: Path):
    """Their share, advantage and health rules; a run that is not there is named."""
    write_run(tmp_path, 60)
    found = found_tricks(DataFolder(base_dir=str(tmp_path)), experiment("tiny_long"))
    dodge = found.filter(name="dodge", split="train").sort("step")
    assert [0.0] * 30 + [0.5] * 30 == dodge["share"].to_list()
    assert {"rule_judge:4"} == set(found["engine"])
    paid = dodge["advantage"].to_list()
    assert {None} == set(paid[:30])
    assert all(value < 0 for value in paid[30:])
    assert [*range(19, 60)] == found.filter(name="truncated")["step"].to_list()
    table = found_markdown(found)
    (row,) = [line for line in table.splitlines() if "I don't know, whatever" in line]
    assert ["0 %", "50 %"] == [cell.strip() for cell in row.split("|")[2:4]]
    assert ["0 %", "100 %"] == [
        cell[1:].split(" \\")[0] for cell in row.split("|")[6:8]
    ]  # held-out
    assert "verdict without a question" not in table  # never played
    assert "| truncated | 41 | 19 | 59 |" in health_markdown(found)
    assert found_figure(found).svg.startswith(b"<?xml")
    with pytest.raises(TrainingError, match="decomposerl train tiny_long"):
        found_tricks(DataFolder(base_dir=str(tmp_path / "new")), experiment("tiny_long"))


MARKS = "<!-- {0} report: begin -->\n<!-- {0} report: end -->\n"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with claims and a run of four steps."""
    folder = tmp_path_factory.mktemp("data")
    write_parquet(pool(), folder / "silver_decomposed.parquet")
    write_run(folder, 4)
    return folder


def test_claims_of_a_third_label_are_not_played(tmp_path: Path):
    """No script can state or deny them; their traces would end without a verdict."""
    claims = pool()
    named = pl.when(pl.col("label") == "Refuted").then(pl.lit("NotEnoughInfo")).otherwise("label")
    third = claims.with_columns(label=named, label_rule=pl.lit("keep_middle"))
    write_parquet(third, tmp_path / "silver_decomposed.parquet")
    cases = profile_traces(tmp_path, 4, 42).cases
    kept = {case.rollout.group for case in cases}
    assert set(claims.filter(label="Supported")["claim_id"]) == kept


def test_the_page_has_every_trick_with_what_it_earns(played: Path, tmp_path: Path):
    """Between its markers, with its figure; docs/results/studies.md, as well."""
    page = tmp_path / "studies.md"
    page.write_text(MARKS.format("tricks") + MARKS.format("found"), "utf-8")
    for section in ("tricks", "found"):
        words = ["--data", str(played), "--section", section, "--claims", "4"]
        main([*words, "--report", str(page)])
        drawn = (tmp_path / f"study_{section}.png").read_bytes()
        assert drawn.startswith(b"\x89PNG")
    written = page.read_text("utf-8")
    inside = written.split("<!-- tricks report: end -->")[0]
    assert len(TRICKS) + 2 == sum(line.startswith("|") for line in inside.splitlines())
    assert "4 claims; rule_judge" in inside
    assert "`tiny_long`, 4 steps; judge rule_judge" in written
    page = (ROOT / "docs/results/studies.md").read_text("utf-8")
    inside = page.split("<!-- tricks report: begin -->")[1].split("<!-- tricks report: end -->")[0]
    assert [] == [one.name for one in TRICKS if f"| {markdown_text(one.title)} |" not in inside]
    assert "`tiny_long`, 200 steps" in page
