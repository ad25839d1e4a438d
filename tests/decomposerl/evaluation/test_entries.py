"""``systems.toml``: what an entry may say, and what a wrong file is answered with."""

from pathlib import Path

import pytest

from decomposerl.baselines.catalogue import ENTRY_METHODS, METHODS
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import SystemEntry
from decomposerl.evaluation.leaderboard import systems_of
from decomposerl.evaluation.published import PUBLISHED
from decomposerl.evaluation.systems import System, system_named, systems, with_entries
from decomposerl.evaluation.systems_file import parse_systems_toml

PROTOCOLS = {one.name: list(one.procedures) for one in ENTRY_METHODS if one.engine == "chat"}
HOME = Path("/home/me")
AT = 'base_url = "http://127.0.0.1:8/v1"\n'
CHAT = f'[mine]\nmethod = "simple"\nmodel = "m"\n{AT}'
VERIFIER = f'[mine]\nmethod = "verifier"\nmodel = "m"\n{AT}user = "{{document}} {{claim}}"\n'
MINICHECK = f'[mine]\nmethod = "verifier"\nform = "minicheck"\nmodel = "m"\n{AT}'
CLASSIFIER = '[mine]\nmethod = "verifier"\nform = "classifier"\nmodel = "m"\n'
TRACE = '[mine]\nmethod = "trace"\nmodel = "./base"\n'
HUB = 'adapter = "a/b"\n'
CANARY = "sk-5812-canary"


def parsed(text: str) -> tuple[SystemEntry, ...]:
    return parse_systems_toml(text, "my.toml", HOME, PROTOCOLS, ["tiny"])


def merged(text: str) -> tuple[System, ...]:
    return with_entries(systems(METHODS, ["tiny"]), parsed(text), ENTRY_METHODS, "my.toml")


def test_an_entry_is_a_system_under_its_own_name():
    """Name, not model, is the key: entries of one model are different systems."""
    text = CHAT + CHAT.replace("mine", "other") + TRACE.replace("mine", "third")
    every = merged(text + VERIFIER.replace("mine", "fourth"))
    *known, mine, other, third, fourth = every
    assert tuple(known) == systems(METHODS, ["tiny"])
    assert ["mine", "other", "third", "fourth"] == [s.key for s in (mine, other, third, fourth)]
    assert (mine.method, mine.protocol, mine.reader_title) == ("simple", "faithful", "mine")
    assert ("decomposerl", "trace") == (third.method, third.protocol)
    assert ("verifier", "faithful") == (fourth.method, fourth.protocol)
    assert mine == system_named("mine", every)
    assert len(every) == len({hash(one) for one in every})
    with pytest.raises(ConfigError, match=r"systems\.toml has mine"):
        system_named("mien", every)


def test_an_entry_is_no_row_of_the_papers_tables():
    """Not even by the name of a model that has one."""
    every = merged(CHAT.replace("mine", '"qwen2.5-7b"'))
    (row,) = [one for one in PUBLISHED if (one.method, one.model) == ("simple", "qwen2.5-7b")][:1]
    assert ["simple-qwen2.5-7b-faithful"] == [one.key for one in systems_of(row, every)]


def test_paths_are_those_of_the_file():
    """A path begins with /, ./ or ../; other names are the hub's or the endpoint's."""
    (one,) = parsed(TRACE + 'adapter = "../a"\nprompts = "./p"\nrecipe = "tiny"\n')
    assert ("/home/me/base", "/home/me/../a", "/home/me/p") == (
        *(one.model, one.adapter),
        one.prompts,
    )
    assert "in_process" == one.place
    (absolute,) = parsed(TRACE.replace("./base", "/base"))
    assert "/base" == absolute.model
    (hosted,) = parsed(VERIFIER.replace('"m"', '"/srv/m"') + 'tokenizer = "./tok"\n')
    assert ("/srv/m", "/home/me/tok") == (hosted.model, hosted.tokenizer)
    (served,) = parsed(f'{TRACE}{HUB}{AT}adapter_revision = "main"\n'.replace("./base", "org/b"))
    assert ("org/b", "a/b", "endpoint") == (served.model, served.adapter, served.place)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method = 1\n", "method: stands outside of an entry"),
        ("[a]\nx = [\n", "not TOML"),
        ("[a]\n[a]\n", "not TOML"),
        ("[a]\nb = " + "[" * 5_000, "not TOML"),
        ("a = \x00\n", "not TOML"),
        (CHAT.replace("[mine]", '["../up"]'), r"\[../up\]: a name has lower-case letters"),
        (CHAT.replace("[mine]", '["-x"]'), r"\[-x\]: a name has"),
        (CHAT.replace("[mine]", "[Mine]"), "a name has lower-case letters"),
        (CHAT.replace("[mine]", f"[{'a' * 81}]"), "a name has"),
        (CHAT.replace("[mine]", "[paper_7b-seed_1]"), "neither '-seed_' inside"),
        (CHAT.replace("[mine]", "[a-mean]"), "nor '-mean' at its end"),
        ("[mine]\n", r"\[mine\] method: is missing\nmy.toml: \[mine\] model: is missing"),
        (CHAT + 'name = "x"\n', r"\[mine\] name: the name is the line"),
        (CHAT + "temprature = 1\n", r"\[mine\] temprature: is no field .*did you mean temperature"),
        (CHAT + "api_key = 'x'\n", r"api_key: is no field of an entry; did you mean key\?"),
        (CHAT.replace("simple", "simpel"), r"method: there is no 'simpel'; did you mean simple\?"),
        (CHAT.replace("simple", "minicheck"), "method: there is no 'minicheck'"),
        (CHAT + 'protocol = "free"\n', "protocol: Input should be 'faithful' or 'single_call'"),
        (CHAT + "seed = 1.5\n", "seed: Input should be a valid integer"),
        (CHAT + 'context = "8k"\n', "context: Input should be a valid integer"),
        (CHAT + "context = -1\n", "context: Input should be greater"),
        (CHAT + "prompt_price = nan\n", "prompt_price: Input should be"),
        (CHAT + "temperature = inf\n", "temperature: Input should be"),
        (CHAT + "dollars = 1\n", "dollars: a ceiling needs prompt_price"),
        (CHAT + 'recipe = "tiny"\n', "recipe: belongs to method trace"),
        (CHAT + 'user = "x"\n', "user: belongs to method verifier"),
        (CHAT + "dtype = 'float16'\n", "dtype: belongs to weights in this process"),
        (CHAT + 'runs = "server"\n', "base_url: runs = 'server' has no URL"),
        (CHAT.replace(AT, 'runs = "endpoint"\n'), "base_url: runs = 'endpoint' needs a URL"),
        (TRACE + 'recipe = "tniy"\n', r"recipe: there is no 'tniy'; did you mean tiny\?"),
        (TRACE + HUB, "adapter_revision: an adapter of the hub needs its commit"),
        (
            TRACE + 'adapter = "./a"\nadapter_revision = "m"\n',
            "adapter_revision: a folder has none",
        ),
        (TRACE + 'adapter_revision = "main"\n', "adapter: is missing"),
        (TRACE + "prompt_price = 1\n", r"prompt_price: belongs to an endpoint \(base_url\)"),
        (TRACE + "concurrency = 3\n", "concurrency: belongs to a served chat model"),
        (TRACE + 'device = "tpu"\n', "device: String should match"),
        (VERIFIER.replace("{claim}", ""), "user: its placeholders must be {claim} and {document}"),
        (VERIFIER.replace("user", "pair"), "pair: belongs to form 'classifier'"),
        (VERIFIER + 'refuted = ["Yes"]\n', "supported: it and refuted are lists of different"),
        (VERIFIER + "refuted = []\n", "supported: it and refuted have at least one word"),
        (VERIFIER + "template = { a = 1 }\n", "template: belongs to form 'documents'"),
        (VERIFIER + 'form = "classifier"\n', "form: 'classifier' runs in this process"),
        (VERIFIER + 'adapter = "./a"\n', "adapter: belongs to a baseline or trace"),
        (VERIFIER + "threshold = 1.0\n", "threshold: Input should be less than 1"),
        (
            VERIFIER.replace("user", "system")
            + 'form = "documents"\ntemplate = { d = 1999-01-01 }\n',
            "template: holds a date",
        ),
        (CHAT.replace("mine", '"simple-rules-faithful"'), "another system has this name"),
        (CHAT.replace(":8/", ":abc/"), "base_url: must be a plain URL"),
        (CHAT.replace(":8/", ":99999/"), "base_url: must be a plain URL"),
        (CHAT.replace(":8/", ":0/"), "base_url: must be a plain URL"),
        (CHAT.replace("127.0.0.1", "[::1"), "base_url: must be a plain URL"),
        (CHAT.replace("mine", "qwen2.5-7b"), r'quotes: \["qwen2.5-7b"\]'),
        (CHAT + CHAT.replace("mine", "mine.2.b"), r'\[mine.2.b\].* quotes: \["mine.2.b"\]'),
        (CHAT.replace("[mine]", '["a...b"]'), r"\[a\.\.\.b\]: a name has"),
        (CHAT + 'key = "DECOMPOSERL_MY_KEY"\n', "key: names that begin with DECOMPOSE"),
        (VERIFIER + "supported_class = 0\n", "supported_class: form 'chat' does not use it"),
        (MINICHECK + "temperature = 0.5\n", "temperature: form 'minicheck' does not use it"),
        (MINICHECK + "seed = 1\n", "seed: form 'minicheck' does not use it"),
        (MINICHECK + 'read = "text"\n', "read: form 'minicheck' does not use it"),
        (MINICHECK + 'refuted = "no"\n', "refuted: form 'minicheck' does not use it"),
        (CLASSIFIER + "max_tokens = 3\n", "max_tokens: form 'classifier' does not use it"),
        (CLASSIFIER + 'supported = "yes"\n', "supported: form 'classifier' does not use it"),
    ],
)
def test_a_wrong_file_is_named_with_entry_and_field(text: str, said: str):
    """One line for each mistake, with the nearest name where a word is unknown."""
    with pytest.raises(ConfigError, match=said) as caught:
        merged(text)
    assert str(caught.value).startswith("my.toml: ")


def test_every_mistake_of_a_file_is_listed():
    """Of all entries, in their order."""
    with pytest.raises(ConfigError) as caught:
        parsed(CHAT + "seed = -1\nx = 1\n" + TRACE.replace("mine", "b") + 'recipe = "no"\n')
    said = str(caught.value).splitlines()
    assert ["[mine]", "[mine]", "[b]"] == [line.split()[1] for line in said]


def test_a_wrong_type_hides_neither_key_nor_url():
    """All three are listed."""
    with pytest.raises(ConfigError) as caught:
        parsed(CHAT.replace(":8/", ":0/") + 'seed = "1"\nkey = "sk"\n')
    said = str(caught.value).splitlines()
    assert ["base_url:", "key:", "seed:"] == sorted(line.split()[2] for line in said)


def test_a_key_may_be_a_variable_of_this_program():
    """One that it reads; another that begins so would be refused once it is set."""
    text, known = CHAT + 'key = "DECOMPOSERL_JUDGE_KEY"\n', ["DECOMPOSERL_JUDGE_KEY"]
    (one,) = parse_systems_toml(text, "my.toml", HOME, PROTOCOLS, [], known)
    assert "DECOMPOSERL_JUDGE_KEY" == one.key


@pytest.mark.parametrize(
    "line",
    [
        f'key = "{CANARY}"',
        f'base_url = "http://me:{CANARY}@h/v1"',
        f'base_url = "http://h/v1?key={CANARY}"',
        f'api_key = "{CANARY}"',
        f'seed = "{CANARY}"',
    ],
)
def test_no_message_repeats_a_secret(line: str):
    """A key in the file is refused without being printed."""
    text = CHAT.replace(AT, "") if line.startswith("base_url") else CHAT
    with pytest.raises(ConfigError) as caught:
        parsed(f"{text}{line}\n")
    assert CANARY not in str(caught.value)


def test_a_file_may_be_empty():
    """Or have comments alone, or begin with a byte-order mark."""
    assert () == parsed("") == parsed("# nothing\n") == parsed("\ufeff# nothing\n")


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("temperature = 0.5\n", False),
        ('model = "other"\n', False),
        ('base_url = "http://127.0.0.1:9/v1"\n', False),
        ("seed = 42\n", True),
        ('title = "Mine"\nkey = "MY_KEY"\nprompt_price = 1.0\nconcurrency = 3\n', True),
    ],
)
def test_a_digest_says_whether_an_entry_gives_other_verdicts(line: str, *, same: bool):
    """Of the fields that decide them, with their defaults; name and place of the file are none."""
    (before,) = parsed(CHAT)
    field = line.partition(" ")[0]
    kept = [one for one in CHAT.splitlines(keepends=True) if not one.startswith(field)]
    (after,) = parsed("".join(kept) + line)
    assert same == (before.digest == after.digest)


def test_a_digest_is_that_of_the_file():
    """The folder may move with it; with a revision, so may the endpoint."""
    text = TRACE + 'adapter = "./a"\n'
    (here,) = parsed(text)
    (there,) = parse_systems_toml(text, "my.toml", Path("/elsewhere"), PROTOCOLS, ["tiny"])
    assert here.model != there.model
    assert here.digest == there.digest
    pinned = CHAT + 'revision = "v1"\n'
    (first,), (second,) = parsed(pinned), parsed(pinned.replace(":8/", ":9/"))
    assert first.digest == second.digest
