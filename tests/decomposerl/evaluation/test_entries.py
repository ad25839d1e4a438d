"""``systems.toml``: what an entry may say, and what a wrong file is answered with."""

from pathlib import Path

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import SystemEntry, parse_systems_toml
from decomposerl.evaluation.systems import System, system_named, systems
from tables import cases_beside

HOME = Path("/home/me")
AT = 'base_url = "http://127.0.0.1:8/v1"\n'
CHAT = f'[mine]\nmethod = "simple"\nmodel = "m"\n{AT}'
VERIFIER = f'[mine]\nmethod = "verifier"\nmodel = "m"\n{AT}user = "{{document}} {{claim}}"\n'
DOCUMENTS = VERIFIER.replace("user", "system") + 'form = "documents"\n'
MINICHECK = f'[mine]\nmethod = "verifier"\nform = "minicheck"\nmodel = "m"\n{AT}'
CLASSIFIER = '[mine]\nmethod = "verifier"\nform = "classifier"\nmodel = "m"\n'
TRACE = '[mine]\nmethod = "trace"\nmodel = "./base"\n'
HUB = 'adapter = "a/b"\n'
CANARY = "sk-5812-canary"


def parsed(text: str) -> tuple[SystemEntry, ...]:
    return parse_systems_toml(text, "my.toml", HOME, ["tiny"])


def merged(text: str) -> tuple[System, ...]:
    return systems(METHODS, ["tiny"], parsed(text), "my.toml")


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


def test_paths_are_those_of_the_file():
    """A path begins with /, ./ or ../; other names are the hub's or the endpoint's."""
    (one,) = parsed(TRACE + 'adapter = "../a"\nprompts = "./p"\nrecipe = "tiny"\n')
    assert ("/home/me/base", "/home/me/../a") == (one.model, one.adapter)
    assert ("/home/me/p", "in_process") == (one.prompts, one.place)
    (absolute,) = parsed(TRACE.replace("./base", "/base"))
    assert "/base" == absolute.model
    (hosted,) = parsed(VERIFIER.replace('"m"', '"/srv/m"') + 'tokenizer = "./tok"\n')
    assert ("/srv/m", "/home/me/tok") == (hosted.model, hosted.tokenizer)
    (served,) = parsed(f'{TRACE}{HUB}{AT}adapter_revision = "main"\n'.replace("./base", "org/b"))
    assert ("org/b", "a/b", "endpoint") == (served.model, served.adapter, served.place)


@pytest.mark.parametrize("case", cases_beside(__file__, "wrong_entries"))
def test_a_wrong_file_is_named_with_entry_and_field(case: dict[str, str]):
    """One line for each mistake, with the nearest name where a word is unknown."""
    with pytest.raises(ConfigError, match=case["says"]) as caught:
        merged(case["text"])
    assert str(caught.value).startswith("my.toml: ")


def test_every_mistake_of_a_file_is_listed():
    """Of all entries, in their order; a wrong type hides neither key nor URL."""
    with pytest.raises(ConfigError) as caught:
        parsed(CHAT + "seed = -1\nx = 1\n" + TRACE.replace("mine", "b") + 'recipe = "no"\n')
    said = [line.split()[1] for line in str(caught.value).splitlines()]
    assert ["[mine]", "[mine]", "[b]"] == said
    with pytest.raises(ConfigError) as caught:
        parsed(CHAT.replace(":8/", ":0/") + 'seed = "1"\nkey = "sk"\n')
    said = [line.split()[2] for line in str(caught.value).splitlines()]
    assert ["base_url:", "key:", "seed:"] == sorted(said)


def test_a_file_may_be_empty_and_a_key_a_variable_of_this_program():
    """Comments and a byte-order mark are nothing; a key is one that is read."""
    assert () == parsed("") == parsed("# nothing\n") == parsed("\ufeff# nothing\n")
    text, known = CHAT + 'key = "DECOMPOSERL_JUDGE_KEY"\n', ["DECOMPOSERL_JUDGE_KEY"]
    (one,) = parse_systems_toml(text, "my.toml", HOME, [], known)
    assert "DECOMPOSERL_JUDGE_KEY" == one.key


def test_no_message_repeats_a_secret():
    """A key in the file is refused without being printed."""
    for line in (
        *(f'{field} = "{CANARY}"' for field in ("key", "api_key", "seed")),
        f'base_url = "http://me:{CANARY}@h/v1"',
        f'base_url = "http://h/v1?key={CANARY}"',
    ):
        text = CHAT.replace(AT, "") if line.startswith("base_url") else CHAT
        with pytest.raises(ConfigError) as caught:
            parsed(f"{text}{line}\n")
        assert CANARY not in str(caught.value)


def test_a_host_that_looks_like_another_is_shown_in_ascii():
    """The first letter here is Cyrillic."""
    (entry,) = parsed(CHAT.replace("127.0.0.1:8", "\u0430pi.openai.com"))
    assert ("http://xn--pi-6kc.openai.com/v1",) == entry.base_url
    assert not entry.at_openai


def test_a_digest_says_whether_an_entry_gives_other_verdicts():
    """Of the fields that decide them, with their defaults; name and place of the file are none."""
    (before,) = parsed(CHAT)
    for line, same in {
        "temperature = 0.5\n": False,
        'model = "other"\n': False,
        'base_url = "http://127.0.0.1:9/v1"\n': False,
        "seed = 42\n": True,
        'title = "Mine"\nkey = "MY_KEY"\nprompt_price = 1.0\nconcurrency = 3\n': True,
    }.items():
        field = line.partition(" ")[0]
        kept = [one for one in CHAT.splitlines(keepends=True) if not one.startswith(field)]
        (after,) = parsed("".join(kept) + line)
        assert same == (before.digest == after.digest), line


def test_a_digest_is_that_of_the_file():
    """The folder may move with it; with a revision, so may the endpoint."""
    text = TRACE + 'adapter = "./a"\n'
    (here,) = parsed(text)
    (there,) = parse_systems_toml(text, "my.toml", Path("/elsewhere"), ["tiny"])
    assert here.model != there.model
    assert here.digest == there.digest
    pinned = CHAT + 'revision = "v1"\n'
    (first,), (second,) = parsed(pinned), parsed(pinned.replace(":8/", ":9/"))
    assert first.digest == second.digest
