"""The command line of the vLLM stand-in: flags, types and defaults of vLLM 0.31, no others.

Its own words are ``--stand-in`` (what goes wrong, see ``vllm_stand_in``), ``--holds`` (the file
that it and its worker lock), ``--version`` (what ``/version`` answers), ``--says`` (the text of a
reply) and ``--card-gb`` (size of a card). Where a command of a page is run as printed, ``--holds``,
``--says`` and ``--card-gb`` are the variables ``STAND_IN_HOLDS``, ``STAND_IN_SAYS`` and
``STAND_IN_CARD_GB``.
"""

import argparse
import json
import os
import re
from collections.abc import Sequence

from project import SUPPORT

OPTIONS = json.loads((SUPPORT / "stand_in_arguments.json").read_text("utf-8"))
"""Flags by what follows them: a text, a number, nothing, a JSON object, one of some words."""
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The command line; ends the process with status 2 on a word that vLLM 0.31 refuses."""
    parser = argparse.ArgumentParser(prog="vllm", allow_abbrev=False)
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8_000)
    parser.add_argument("--api-key", nargs="+")
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--data-parallel-size", "-dp", type=int, default=1)
    parser.add_argument("--api-server-count", type=int)
    parser.add_argument("--gpu-memory-utilization", type=_share, default=0.92)
    parser.add_argument("--max-model-len", type=_count)
    parser.add_argument("--max-logprobs", type=int, default=20)
    ranks = (1, 8, 16, 32, 64, 128, 256, 320, 512)
    parser.add_argument("--max-lora-rank", type=int, default=16, choices=ranks)
    parser.add_argument("--lora-modules", nargs="+", type=_module, default=[])
    for flag in OPTIONS["text"]:
        parser.add_argument(flag)
    for flag in OPTIONS["number"]:
        parser.add_argument(flag, type=int)
    for flag in OPTIONS["switch"]:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=False)
    for flag in OPTIONS["object"]:
        parser.add_argument(flag, type=json.loads)
    for flag, choices in OPTIONS["choice"].items():
        parser.add_argument(flag, choices=choices, default="auto" if "auto" in choices else None)
    held = os.environ.get("STAND_IN_HOLDS")
    parser.add_argument("--stand-in", default="well")
    parser.add_argument("--holds", default=held, required=held is None)
    parser.add_argument("--version", default="0.31.0")
    parser.add_argument("--says", default=os.environ.get("STAND_IN_SAYS", "Yes"))
    card = float(os.environ.get("STAND_IN_CARD_GB", "80"))
    parser.add_argument("--card-gb", type=float, default=card)
    return parser.parse_args(words)


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("a share is above 0 and at most 1")
    return share


def _count(text: str) -> int:
    """A number of tokens; ``16k`` is 16,000, ``16K`` is 16,384."""
    match = re.fullmatch(r"(\d+)([kmKM]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of tokens")
    return int(match[1]) * _SUFFIXES[match[2]]


def _module(text: str) -> tuple[str, str]:
    """Name and folder of an adapter, from ``name=folder`` or a JSON object."""
    if "=" in text and "," not in text:
        name, folder = text.split("=", 1)
        return name, folder
    try:
        given = json.loads(text)
        return str(given["name"]), str(given["path"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        message = f"Invalid JSON format for --lora-modules: {text}"
        raise argparse.ArgumentTypeError(message) from error
