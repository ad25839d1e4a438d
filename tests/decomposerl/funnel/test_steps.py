"""Each step by example, and the pairs that deduplication stores."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tokenizers import ByteLevelBPETokenizer

from decomposerl import schemas
from decomposerl.errors import ConservationError, EngineError
from decomposerl.funnel import catalogue, settings
from decomposerl.funnel.duplicates import opposite_twins
from decomposerl.funnel.silver import distinct_questions
from decomposerl.funnel.step import StageResult
from decomposerl.kernels.matches import exact_threshold
from decomposerl.kernels.text_scan import words
from decomposerl.table import Table
from decomposerl.text.sentences import split_sentences
from exact_cosines import exact_cosines
from fakes import (
    BagOfWordsEmbedder,
    CapitalisedWords,
    ScriptedDecomposer,
    ScriptedEmbedder,
    ScriptedVerifier,
    WordCounter,
)
from resources.tokens.word_tokens import WordTokens
from strategies import FRAME_LAW, LAW, any_text, example_row, frame_of, frames, sentence

Fate = tuple[str, float | None, float | None]


def fates(result: StageResult) -> dict[int, Fate]:
    """Row number to reason, value and threshold of every drop."""
    columns = result.drops.select("claim_id", "reason", "value", "threshold").rows()
    return {int(claim, 16): (reason, value, bound) for claim, reason, value, bound in columns}


def known(*claims: str, table: Table = schemas.DIFFICULTY_BAND) -> pl.DataFrame:
    return frame_of(table, [example_row(claim=claim) for claim in claims])


def passages(*texts: str) -> dict[str, object]:
    return {"passages": list(texts), "evidence": "\n".join(texts)}


def test_rules_drop_what_lies_beyond_each_bound_and_keep_the_bound():
    """One row a rule, with the number it was judged by; the entity engine sees survivors."""
    long = "Word" + " word" * 19
    three = passages("One. Two. " + long + ".")
    claims = frame_of(
        schemas.CLAIMS,
        [
            example_row(**three),
            example_row(**passages("One. " + long + ".")),
            example_row(**passages("row | a"), evidence_kind="table"),
            example_row(**passages("One. Two. Three.")),
            example_row(**passages("One. Two. Three " + long * 2)),
            example_row(**passages("One. Two. Ilva Marrek opened Torbeck bridge " + long)),
            example_row(**three, claim="the bridge of Torbeck"),
        ],
    )
    recogniser, counter = CapitalisedWords(), WordCounter()
    chosen = settings.RuleSettings(min_tokens=22, max_tokens=40)
    result = catalogue.rule_filter(claims, chosen, counter, recogniser)
    assert fates(result) == {
        1: ("too_few_passages", 2, 3),
        2: ("too_few_tokens", 3, 22),
        3: ("too_few_tokens", 3, 22),
        4: ("too_many_tokens", 42, 40),
        5: ("paraphrased_evidence", 1.0, 0.9),
        6: ("too_few_entities", 1, 2),
    }
    assert [5] == counter.asked, "each distinct text once"
    assert [2] == recogniser.asked
    kept = result.kept.select("evidence_tokens", "token_unit", "overlap", "entities").row(0)
    assert kept == (22, "words", 0.0, ["ilva", "marrek", "torbeck"])


# Of each script: what joins its sentences, four sentences, and a claim about something else.
SCRIPTS = {
    "Latin": (
        *(" ", "The bridge of Torbeck was opened in 1921.", "It leads over the river Osk."),
        *("Ada Holm paid for it!", "Is it still used today?"),
        "A mill by the harbour burnt down in a stormy winter",
    ),
    "Chinese": (
        *("", "北京是中华人民共和国的首都。", "它有两千一百万人口，位于华北平原！"),
        *("你知道它的历史吗？", "故宫博物院于1925年开放。"),
        "港口旁的老磨坊在一个风雪交加的冬夜被大火烧毁",
    ),
    "Japanese": (
        *("", "東京は日本の首都である。", "人口は約1400万人で、関東平野に位置する。"),
        *("本当ですか？", "スカイツリーは2012年に開業した。"),
        "港のそばの古い水車小屋は嵐の冬の夜に火事で焼け落ちた",
    ),
    "Thai": (
        *(" ", "กรุงเทพมหานครเป็นเมืองหลวงและเป็นเมืองที่มีประชากรมากที่สุดของประเทศไทย"),
        "ตั้งอยู่บนสามเหลี่ยมปากแม่น้ำเจ้าพระยาซึ่งไหลผ่านกลางเมืองหลวงแห่งนี้",
        "มีพระบรมมหาราชวังเป็นสถานที่ท่องเที่ยวที่มีชื่อเสียงที่สุดของเมือง",
        "และมีวัดต่าง ๆ มากมายกระจายอยู่ทั่วทุกเขตของกรุงเทพมหานคร",
        "โรงสีเก่าข้างท่าเรือถูกไฟไหม้ในคืนฤดูหนาวที่มีพายุรุนแรง",
    ),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_rules_and_duplicates_read_scripts_without_spaces(script: str):
    """Sentences, tokens, copies and near duplicates of a made corpus, whatever its script."""
    joint, *told, other = SCRIPTS[script]
    evidence = passages(*([joint.join(told)] * 3))
    assert told == split_sentences(joint.join(told))
    changed = f"{other[:-7]} night" if script == "Latin" else other[:-1]
    rows = [example_row(claim=claim, **evidence) for claim in (other, told[0], changed)]
    rules = settings.RuleSettings(min_sentences=12, min_tokens=30, min_entities=0, max_tokens=900)
    result = catalogue.rule_filter(
        frame_of(schemas.CLAIMS, rows), rules, WordTokens(), CapitalisedWords()
    )
    assert {1: ("paraphrased_evidence", 1.0, 0.9)} == fates(result)
    assert max(result.kept["overlap"]) < 0.4
    near = known(other, changed, told[0], told[1])
    found = catalogue.deduplicate(near, settings.DedupSettings(jaccard=0.75), BagOfWordsEmbedder())
    assert [(1, "lexical_duplicate")] == [(n, fate[0]) for n, fate in fates(found).items()]
    (tokens,) = WordTokens().count([(joint.join(told) * 40)[:1_200]])
    assert (200 if script == "Latin" else 600) < tokens < 1_200


def test_the_overlap_rule_can_be_switched_off():
    """With the switch off the column is filled and the claim stays."""
    row = example_row(**passages("One. Two. Ilva Marrek opened the Torbeck bridge."))
    rules = settings.RuleSettings(min_tokens=0, overlap_filter=False)
    result = catalogue.rule_filter(
        frame_of(schemas.CLAIMS, [row]), rules, WordCounter(), CapitalisedWords()
    )
    assert [1.0] == result.kept["overlap"].to_list()


def banded(frame: pl.DataFrame, probabilities: dict[str, float]) -> StageResult:
    verifier = ScriptedVerifier(probabilities)
    return catalogue.difficulty_band(frame, settings.DifficultySettings(), verifier)


def test_the_difficulty_band_includes_its_bounds():
    """Confidence is P for Supported and 1 - P for Refuted; 0.3 and 0.8 stay."""
    probability = {"a": 0.3, "b": 0.8, "c": 0.81, "d": 0.29, "e": 0.7, "f": 0.2, "g": 0.1}
    rows = [
        example_row(claim=claim, label="Refuted" if claim in "efg" else "Supported")
        for claim in probability
    ]
    result = banded(frame_of(schemas.RULE_FILTERED, rows), probability)
    assert fates(result) == {
        2: ("too_easy", 0.81, 0.8),
        3: ("likely_mislabelled", 0.29, 0.3),
        6: ("too_easy", 0.9, 0.8),
    }
    kept = result.kept.select("support_probability", "label_confidence").rows()
    assert kept == [(0.3, 0.3), (0.8, 0.8), (0.7, 0.3), (0.2, 0.8)]


@pytest.mark.parametrize("probability", [float("nan"), -0.1, 1.1])
def test_a_verifier_that_gives_no_probability_stops_the_stage(probability: float):
    """A broken engine is an error of the run, never a drop."""
    with pytest.raises(EngineError, match="scripted-verifier"):
        banded(known("a", table=schemas.RULE_FILTERED), {"a": probability})


@pytest.mark.parametrize("threshold", [0.7, 1.0])
@pytest.mark.parametrize("engine", ["exact", "minhash_verified", "minhash"])
def test_duplicates_name_the_kept_claim_they_repeat(engine: str, threshold: float):
    """Lexical first, then by meaning; the first of each group stays."""
    rows = [
        example_row(claim="Ilva Marrek opened the Torbeck bridge"),
        example_row(claim="The Torbeck bridge: opened, Ilva Marrek!", source="wice"),
        example_row(claim="river river river Torbeck", source="scitab"),
        example_row(claim="Torbeck river Torbeck river river", source="wice"),
        example_row(claim="Ösk is elsewhere"),
    ]
    chosen = settings.DedupSettings(lexical_engine=engine, jaccard=threshold)
    embedder = BagOfWordsEmbedder()
    result = catalogue.deduplicate(frame_of(schemas.DIFFICULTY_BAND, rows), chosen, embedder)
    matched = result.drops.select("reason", "matched_claim_id", "matched_source", "value").rows()
    assert matched == [
        ("lexical_duplicate", f"{0:016x}", "hover", 1.0),
        ("lexical_duplicate", f"{2:016x}", "scitab", 1.0),
    ]
    assert [3] == embedder.asked


def test_paraphrases_leave_after_lexical_duplicates():
    """Different enough words, one direction: the semantic pass names the kept claim."""
    rows = [
        example_row(claim="river " * 9 + "Torbeck", source="wice"),
        example_row(claim="river " * 9 + "Ösk 1921"),
    ]
    result = catalogue.deduplicate(
        frame_of(schemas.DIFFICULTY_BAND, rows), settings.DedupSettings(), BagOfWordsEmbedder()
    )
    ((reason, match, source, value, bound),) = result.drops.select(
        "reason", "matched_claim_id", "matched_source", "value", "threshold"
    ).rows()
    assert (reason, match, source, bound) == ("semantic_duplicate", f"{0:016x}", "wice", 0.7)
    assert 0.7 <= value < 1


def unlabelled(*rows: dict[str, object]) -> pl.DataFrame:
    """Claims of a test set without labels."""
    claims = frame_of(schemas.CLAIMS, [*rows]).with_columns(label=pl.lit(None, pl.String()))
    return schemas.BENCHMARK_CLAIMS.conform(claims)


def at_cosine(cosine: float) -> list[float]:
    """A vector with this cosine to the first axis."""
    return [cosine, (1 - cosine**2) ** 0.5, 0.0]


def test_decisions_within_rounding_of_a_threshold_are_counted():
    """Either side of each bound counts, the bound itself too; what lies further off does not."""
    bounds = [0.3, 0.8, 0.2999995, 0.8000005, 0.3000005, 0.301, 0.5]
    listed = dict(zip("abcdefg", bounds, strict=True))
    found = banded(known(*listed, table=schemas.RULE_FILTERED), listed)
    assert {"difficulty": 5} == found.close
    assert 5 == found.kept.height


def test_a_claim_just_below_the_cosine_stays_and_removes_its_own_paraphrases():
    """Looking for close decisions changes none: the greedy runs at the threshold itself."""
    just_below = at_cosine(0.7 - 4e-7)
    beside = [just_below[0] * 0.5, just_below[1], 0.1]  # near the second claim, not the first
    listed = {"one": [1, 0, 0], "two": just_below, "three": beside, "four": [0, 0, 1]}
    frame = known(*listed)
    found = catalogue.deduplicate(frame, settings.DedupSettings(), ScriptedEmbedder(listed))
    assert [f"{1:016x}"] == found.drops["matched_claim_id"].to_list()
    assert [f"{2:016x}"] == found.drops["claim_id"].to_list()
    assert {"semantic_duplicates": 1} == found.close


@pytest.mark.parametrize(("off", "left"), [(4e-7, 1), (-4e-7, 0), (1e-4, 1), (-1e-4, 0)])
def test_close_leaks_are_counted_and_decided_at_the_threshold(off: float, left: int):
    """A leak is a cosine of 0.90 or more, however the search finds out what is close."""
    listed = {"test": [1, 0, 0], "claim": at_cosine(0.9 + off)}
    tests = unlabelled(example_row(claim="test"))
    frame = known("claim", table=schemas.DEDUPLICATED)
    found = catalogue.decontaminate(
        frame, tests, settings.DecontaminationSettings(), ScriptedEmbedder(listed)
    )
    assert left == found.drops.height
    assert {"semantic_match": int(abs(off) < 1e-6)} == found.close


@pytest.mark.parametrize("engine", ["auto", "exact", "minhash_verified", "minhash"])
def test_each_prong_of_decontamination_fires_and_names_the_benchmark_claim(engine: str):
    """Same wording, same words, same meaning; a clean claim stays; one embedding call."""
    tests = unlabelled(
        example_row(claim="Ilva opened the bridge.", source="fever"),
        example_row(claim="ILVA opened the bridge", source="wice"),
        example_row(claim="river " * 9 + "Torbeck", source="hover"),
    )
    claims = "ilva  opened the “bridge”!", "the bridge Ilva opened", "river " * 9 + "Ösk"
    frame = known(*claims, "nothing of the sort", table=schemas.DEDUPLICATED)
    chosen, embedder = settings.DecontaminationSettings(lexical_engine=engine), BagOfWordsEmbedder()
    result = catalogue.decontaminate(frame, tests, chosen, embedder)
    assert ["exact_match", "lexical_match", "semantic_match"] == list(result.engines)
    columns = ("step", "reason", "matched_claim_id", "matched_source", "threshold")
    assert result.drops.select(columns).rows() == [
        ("exact_match", "exact_match", f"{0:016x}", "benchmark/fever", 1.0),
        ("lexical_match", "lexical_match", f"{0:016x}", "benchmark/fever", 0.7),
        ("semantic_match", "semantic_match", f"{2:016x}", "benchmark/hover", 0.9),
    ]
    assert ["nothing of the sort"] == result.kept["claim"].to_list()
    assert [2 + 3] == embedder.asked


def test_without_benchmarks_nothing_is_dropped_and_no_engine_is_called():
    """An empty hold-out leaves the pool as it is."""
    embedder = BagOfWordsEmbedder()
    frame = frame_of(schemas.DEDUPLICATED, [example_row(), example_row()])
    chosen = settings.DecontaminationSettings()
    result = catalogue.decontaminate(frame, schemas.BENCHMARK_CLAIMS.empty(), chosen, embedder)
    assert (2, 0, []) == (result.kept.height, result.drops.height, embedder.asked)


def test_silver_counts_distinct_questions_and_never_makes_one_up():
    """No answer, too few after cleaning, and more than the limit."""
    asked = {
        "a": None,
        "b": [],
        "c": ["Who came?", " who  CAME", "", "?!"],
        "d": ["Who?", "What?"],
        "e": [f"Question {number}?" for number in range(30)],
    }
    frame = known(*asked, table=schemas.DECONTAMINATED)
    result = catalogue.silver_decompose(frame, settings.SilverSettings(), ScriptedDecomposer(asked))
    assert fates(result) == {
        0: ("no_silver_answer", None, 2),
        1: ("too_few_questions", 0, 2),
        2: ("too_few_questions", 1, 2),
    }
    assert [2, 20] == result.kept["n_star"].to_list()
    assert ["Who?", "What?"] == result.kept["questions"][0].to_list()


def test_questions_are_distinct_by_wording_and_keep_their_order():
    """Case, punctuation and spacing make no new question; the first form stays."""
    asked = ["Who  came? ", "When?", "WHO CAME", "  ", "when …"]
    assert ["Who came?", "When?"] == distinct_questions(asked)


def test_training_takes_the_selected_and_the_long_and_drops_the_rest():
    """3,000 tokens are long; a selected long claim is selected; the rest say their length."""
    lengths = {2_999: "Refuted", 3_000: "Refuted", 4_000: "Supported", 500: "Supported"}
    rows = [example_row(evidence_tokens=tokens, label=side) for tokens, side in lengths.items()]
    silver = frame_of(schemas.SILVER_DECOMPOSED, rows)
    selected = schemas.DIVERSITY_SELECTED.conform(
        silver[[2, 3]].with_columns(
            bucket=pl.lit("Supported|hover"),
            selection_rank=pl.Series([1, 0]),
            selection_gain=pl.Series([0.5, 2.0]),
        )
    )
    chosen = settings.TrainingSettings()
    result = catalogue.assemble_training(silver, selected, chosen, WordCounter())
    columns = ("origin", "bucket", "selection_rank", "selection_gain")
    assert result.kept.select(columns).rows() == [
        ("long_evidence", "Refuted|hover", None, None),
        ("selected", "Supported|hover", 1, 0.5),
        ("selected", "Supported|hover", 0, 2.0),
    ]
    assert fates(result) == {0: ("not_selected", 2_999, 3_000)}
    assert ["diversity_selection"] == result.drops["step"].to_list()
    assert {"long_evidence": WordCounter().unit} == result.engines


def test_a_selected_claim_from_elsewhere_is_an_error():
    """Frames of two different runs must not be joined silently."""
    silver = frame_of(schemas.SILVER_DECOMPOSED, [example_row()])
    foreign = frame_of(schemas.DIVERSITY_SELECTED, [example_row(), example_row()])
    with pytest.raises(ConservationError, match="1 selected claims"):
        catalogue.assemble_training(silver, foreign, settings.TrainingSettings(), WordCounter())


RULES = settings.RuleSettings(min_sentences=0, min_tokens=6, max_tokens=12, min_entities=0)
LONG = settings.TrainingSettings(long_evidence_tokens=9)
slack = st.sampled_from([0, 1, 3])


def ruled(frame: pl.DataFrame, counter: WordCounter) -> StageResult:
    return catalogue.rule_filter(frame, RULES, counter, CapitalisedWords())


def assembled(frame: pl.DataFrame, counter: WordCounter) -> StageResult:
    chosen = frame[::3].with_columns(
        bucket=pl.lit("Supported|hover"),
        selection_rank=pl.lit(0, dtype=pl.Int64()),
        selection_gain=pl.lit(1.0),
    )
    return catalogue.assemble_training(
        frame, schemas.DIVERSITY_SELECTED.conform(chosen), LONG, counter
    )


@FRAME_LAW
@given(frames(schemas.CLAIMS), slack)
def test_bounds_decide_what_counting_would(frame: pl.DataFrame, width: int):
    """Same survivors and drops, on the same side; a stated length is the length; all have words."""
    exact, bounded = WordCounter(), WordCounter(slack=width)
    counted, decided = ruled(frame, exact), ruled(frame, bounded)
    same = ("claim_id", "step", "reason", "threshold")
    assert_frame_equal(counted.drops.select(same), decided.drops.select(same))
    assert_frame_equal(counted.kept.drop("evidence_tokens"), decided.kept.drop("evidence_tokens"))
    for few in (True, False):
        drops = decided.drops.filter(reason="too_few_tokens" if few else "too_many_tokens")
        beyond = drops["value"] < drops["threshold"] if few else drops["value"] > drops["threshold"]
        assert beyond.all()
    assert sum(bounded.asked) <= sum(exact.asked)
    kept = decided.kept
    words = [len(text.split()) for text in kept["evidence"]]
    assert words == kept["evidence_words"].to_list()
    known = kept.filter(pl.col("evidence_tokens").is_not_null())
    assert known["evidence_words"].equals(known["evidence_tokens"])
    if width == 0:
        assert known.height == kept.height
        assert [] == bounded.asked


@FRAME_LAW
@given(frames(schemas.SILVER_DECOMPOSED), slack | st.none())
def test_every_training_claim_has_its_exact_length(frame: pl.DataFrame, width: int | None):
    """Long evidence is recognized as if all rows were counted, and no survivor stays uncounted."""
    blank = frame.with_columns(evidence_tokens=pl.lit(None, dtype=pl.Int64()))
    counter = WordCounter(slack=width)
    done = assembled(blank, counter)
    assert done.kept["evidence_tokens"].to_list() == done.kept["evidence_words"].to_list()
    whole = frame.with_columns(evidence_tokens="evidence_words")
    assert_frame_equal(assembled(whole, WordCounter()).kept, done.kept)
    assert sum(counter.asked) <= frame["evidence"].n_unique()


def test_lengths_of_two_units_are_not_mixed():
    """Claims counted in another unit stop the stage instead of being compared."""
    row = example_row() | {"token_unit": "pieces"}
    with pytest.raises(EngineError, match="pieces"):
        assembled(frame_of(schemas.SILVER_DECOMPOSED, [row]), WordCounter())


@pytest.fixture(scope="module")
def pieces() -> ByteLevelBPETokenizer:
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=False)
    text = ["Ilva Marrek opened the Torbeck bridge in 1921. The river is Ösk's.", "the  the\n\nthe"]
    tokenizer.train_from_iterator(text * 20, vocab_size=600, min_frequency=1, show_progress=False)
    return tokenizer


@LAW
@given(text=any_text | st.lists(sentence).map(" \n".join))
def test_words_and_bytes_bound_byte_level_pieces(pieces: ByteLevelBPETokenizer, text: str):
    """No fewer tokens than words, no more than bytes, in any script."""
    plain = text.translate(dict.fromkeys(range(0x1C, 0x20), " "))  # white space to Python alone
    assert len(plain.split()) <= len(pieces.encode(plain).ids) <= len(plain.encode())


FLOORS = (0.3, 0.5, 0.6, 2 / 3, 0.6666667, 0.7)
EMBEDDER = BagOfWordsEmbedder(dimensions=3)  # few dimensions: many near pairs


@LAW
@given(frames(schemas.DIFFICULTY_BAND, max_size=12))
def test_contrastive_claims_are_compared_with_those_of_their_label(frame: pl.DataFrame):
    """Kept rows and pairs are those of each label alone, so no opposite twin is dropped."""
    given = settings.DedupSettings(keep_contrastive=True, pairs_floor=0.6)
    labels = frame.partition_by("label")
    whole, *alone = (catalogue.deduplicate(part, given, EMBEDDER) for part in (frame, *labels))
    for name, key in (("kept", "claim_id"), ("drops", "claim_id"), ("pairs", "later_id")):
        parts = [value for part in alone for value in getattr(part, name)[key]]
        assert sorted(parts) == sorted(getattr(whole, name)[key])
    assert 0 == opposite_twins(frame, whole.drops)


def test_opposite_twins_among_the_duplicates_are_counted():
    """One claim under both labels: a duplicate, unless contrastive claims are kept."""
    labels = ("Supported", "Refuted", "Supported", "Refuted")
    texts = ("a b c d", "a b c d", "a b c d", "x y z")
    rows = [example_row(claim=text, label=label) for text, label in zip(texts, labels, strict=True)]
    frame = frame_of(schemas.DIFFICULTY_BAND, rows)
    for keep, left, opposite in ((False, 2, 1), (True, 1, 0)):
        given = settings.DedupSettings(keep_contrastive=keep)
        drops = catalogue.deduplicate(frame, given, EMBEDDER).drops
        assert (left, opposite) == (drops.height, opposite_twins(frame, drops))


@LAW
@given(frames(schemas.DIFFICULTY_BAND, max_size=12), st.sampled_from(FLOORS))
def test_the_pairs_are_all_pairs(frame: pl.DataFrame, floor: float):
    """Brute force over all rows that enter, kept or not: the same pairs, scores and order."""
    texts, ids = frame["claim"].to_list(), frame["claim_id"].to_list()
    bound, found = exact_threshold(floor), []
    sets = [frozenset(words(text)) or frozenset([""]) for text in texts]
    vectors = EMBEDDER.embed(texts) if texts else np.empty((0, 3), np.float32)
    for kind in ("lexical", "semantic"):
        for later in range(len(ids)):
            for earlier in range(later):
                if kind == "lexical":
                    shared = len(sets[earlier] & sets[later])
                    united = len(sets[earlier] | sets[later])
                    score = shared / united
                    near = shared * bound.denominator >= united * bound.numerator
                else:
                    pair = vectors[earlier : earlier + 1], vectors[later : later + 1]
                    score = float(exact_cosines(*pair)[0])
                    near = score >= floor
                if near:
                    found.append((kind, ids[earlier], ids[later], score, floor))
    asked = {"lexical_engine": "exact", "pairs_floor": floor}
    chosen = settings.DedupSettings.model_validate(asked)
    pairs = catalogue.deduplicate(frame, chosen, EMBEDDER).pairs
    assert pairs is not None
    schema = pl.Schema(list(schemas.PAIRS.schema.items())[:-1])
    assert_frame_equal(pl.DataFrame(found, schema=schema, orient="row"), pairs.drop("engine"))


def test_a_floor_above_a_threshold_is_none_of_a_run():
    """Its pairs would lack some that the stage removes."""
    with pytest.raises(ValueError, match=r"0\.8.*0\.7"):
        settings.DedupSettings(pairs_floor=0.8)


def test_the_embedder_is_asked_once_for_all_rows():
    """With pairs wanted for every row that enters; without, for survivors; never for no row."""
    frame = known("Ilva opened it", "Ilva opened it", "The bridge")
    for floor, asked in ((None, [2]), (0.6, [3])):
        embedder = BagOfWordsEmbedder()
        done = catalogue.deduplicate(frame, settings.DedupSettings(pairs_floor=floor), embedder)
        assert asked == embedder.asked
        assert (done.pairs is None) == (floor is None)
    embedder, wanted = BagOfWordsEmbedder(), settings.DedupSettings(pairs_floor=0.6)
    done = catalogue.deduplicate(schemas.DIFFICULTY_BAND.empty(), wanted, embedder)
    assert done.pairs is not None
    assert_frame_equal(schemas.PAIRS.empty(), done.pairs)
    assert [] == embedder.asked
