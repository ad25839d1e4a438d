"""DecomposeRL's rewards for TRL's ``GRPOTrainer``, from ``decomposerl serve-rewards``.

Copy this file into the trainer's environment; it needs the standard library alone::

    rewards = RewardServer("http://127.0.0.1:8005", tokenizer, group_size=8)
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(num_generations=8, reward_weights=rewards.weights, ...),
        reward_funcs=rewards.functions(),
        train_dataset=dataset,  # prompt, claim, evidence; optionally label, n_star
    )

A process sends all rollouts of its batch in one request. So its batch must hold whole groups:
``per_device_train_batch_size * gradient_accumulation_steps`` is a multiple of ``num_generations``.
"""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Function = Callable[..., list[float | None]]
CLAIM_FIELDS = ("claim", "evidence", "label", "n_star")
UNAVAILABLE = 503
PAUSES_S = (1, 5, 30, 120)
TIMEOUT_S = 3_600


class RewardServer:
    """One reward function for each reward; they share one request per batch."""

    def __init__(
        self,
        url: str,
        tokenizer: Any,  # noqa: ANN401 - any tokenizer of transformers
        group_size: int,
        ends: Sequence[int] = (),
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        """``group_size`` is ``num_generations``.

        ``ends`` are the tokens that end a completion, by default the tokenizer's end and padding.
        ``pauses_s`` are those between attempts where server or judge do not answer.
        """
        self._url, self._tokenizer, self._group_size = url, tokenizer, group_size
        self._ends = {*ends} or {tokenizer.eos_token_id, tokenizer.pad_token_id}
        self._pauses_s = pauses_s
        self._scored: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        self._rewards = self._send("/v1/health")["rewards"]

    @property
    def weights(self) -> list[float]:
        """What ``GRPOConfig(reward_weights=...)`` takes, in the order of ``functions``."""
        return [one["weight"] for one in self._rewards]

    def functions(self) -> list[Function]:
        """What ``GRPOTrainer(reward_funcs=...)`` takes; TRL logs each under its name."""
        return [self._function(one["name"]) for one in self._rewards]

    def _function(self, name: str) -> Function:
        def reward(
            *,
            completion_ids: Sequence[Sequence[int]],
            **columns: Any,  # noqa: ANN401 - the data set's columns, and what TRL adds
        ) -> list[float | None]:
            # None does not count: TRL leaves it out of the weighted sum.
            rollouts = self._score(self._rows(completion_ids, columns))
            return [one["rewards"][name]["counted"] for one in rollouts]

        reward.__name__ = reward.__qualname__ = name
        return reward

    def _rows(
        self, completion_ids: Sequence[Sequence[int]], columns: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """The batch as the server reads it. TRL has the rollouts of a prompt in a row."""
        return [
            {
                "group": row // self._group_size,
                "rollout": row % self._group_size,
                **{name: columns[name][row] for name in CLAIM_FIELDS if name in columns},
                # From the tokens: TRL's own text may lack what a chat template takes for a thought.
                "trace": self._tokenizer.decode(
                    list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
                ),
                "truncated": not ids or ids[-1] not in self._ends,
            }
            for row, ids in enumerate(completion_ids)
        ]

    def _score(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if rows != self._scored[0]:
            request = {"rollouts": rows, "group_size": self._group_size}
            self._scored = (rows, self._send("/v1/rewards", request)["rollouts"])
        return self._scored[1]

    def _send(self, path: str, values: object = None) -> Any:  # noqa: ANN401 - JSON
        """GET, or POST of ``values``; sent again where server or judge do not answer."""
        body = None if values is None else json.dumps(values).encode()
        request = Request(self._url + path, body, {"Content-Type": "application/json"})
        pauses_s = iter(self._pauses_s)
        while True:
            try:
                with urlopen(request, timeout=TIMEOUT_S) as reply:
                    return json.load(reply)
            except HTTPError as error:
                pause_s = next(pauses_s, None) if error.code == UNAVAILABLE else None
                if pause_s is None:
                    raise RuntimeError(f"HTTP {error.code}: {error.read().decode()}") from error
            except OSError:
                pause_s = next(pauses_s, None)
                if pause_s is None:
                    raise
            time.sleep(pause_s)
