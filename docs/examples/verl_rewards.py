"""DecomposeRL's rewards for verl, from ``decomposerl serve-rewards``: a reward manager.

Copy this file into the trainer's environment; it needs the standard library alone. verl (0.7.1 to
0.9) scores one rollout at a time: ``run_single`` is called as soon as a rollout is there, and no
hook sees the group. So this manager keeps the rollouts of a prompt, which share ``uid``, until all
are there, sends them in one request and gives each its total. All have to come to one process::

    reward.num_workers=1
    reward.reward_manager.source=importlib
    reward.reward_manager.module.path=/path/to/verl_rewards.py
    reward.reward_manager.name=GroupRewards
    +decomposerl.url=http://127.0.0.1:8005

A row of the data set has ``reward_model.ground_truth`` (the label, or null) and in ``extra_info``
``claim``, ``evidence``, ``n_star`` and ``split``: where that is not ``train``, a group has
``rollout.val_kwargs.n`` rollouts.
"""

import asyncio
import json
import math
import time
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

UNAVAILABLE = 503
PAUSES_S = (1, 5, 30, 120)
TIMEOUT_S = 3_600
Row = dict[str, Any]


class GroupRewards:
    """What verl's ``RewardLoopWorker`` makes and calls."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:  # noqa: ANN401 - verl's
        """As ``load_reward_manager`` calls it; ``compute_score`` is not used."""
        del compute_score
        rollout, own = config["actor_rollout_ref"]["rollout"], config["decomposerl"]
        self._sizes = {True: rollout["n"], False: rollout["val_kwargs"]["n"]}
        self._url, self._patience_s = own["url"], own.get("patience_s", TIMEOUT_S)
        self._pauses_s = own.get("pauses_s", PAUSES_S)
        self._tokenizer = tokenizer
        self._ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
        self._waiting: dict[str, tuple[list[Row], asyncio.Future[list[Row]]]] = {}

    async def run_single(self, data: Any) -> dict[str, Any]:  # noqa: ANN401 - verl.DataProto
        """One rollout's total, and what each reward counts (NaN where it does not)."""
        item = data[len(data) - 1]  # of several sequences, verl scores the last
        uid, extra = str(item.non_tensor_batch["uid"]), item.non_tensor_batch["extra_info"]
        scored = await self._in_group(
            uid, self._sizes[extra.get("split") == "train"], self._row(item, extra)
        )
        counted = {name: one["counted"] for name, one in scored["rewards"].items()}
        return {
            "reward_score": scored["total"],
            "reward_extra_info": {
                name: math.nan if value is None else value for name, value in counted.items()
            },
        }

    def _row(self, item: Any, extra: Row) -> Row:  # noqa: ANN401 - verl.DataProtoItem
        responses = item.batch["responses"]
        length = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        tokens = responses[:length].tolist()
        n_star = extra.get("n_star")
        return {
            "claim": extra["claim"],
            "evidence": extra["evidence"],
            "label": item.non_tensor_batch["reward_model"]["ground_truth"],
            "n_star": None if n_star is None else int(n_star),
            "trace": self._tokenizer.decode(
                tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
            ),
            "truncated": not tokens or tokens[-1] not in self._ends,
        }

    async def _in_group(self, uid: str, size: int, row: Row) -> Row:
        """The rollout's result, once the last one of its group is there."""
        new = ([], asyncio.get_running_loop().create_future())
        rows, done = self._waiting.setdefault(uid, new)
        place = len(rows)
        rows.append({"group": uid, "rollout": place, **row})
        if len(rows) == size:
            del self._waiting[uid]
            try:
                done.set_result(_with_totals(await asyncio.to_thread(self._score, rows)))
            except Exception as error:  # noqa: BLE001 - every rollout of the group raises it
                done.set_exception(error)
        try:
            scored = await asyncio.wait_for(asyncio.shield(done), self._patience_s)
        except asyncio.TimeoutError:  # noqa: UP041 - verl runs on Python 3.10, too
            message = f"group {uid}: {len(rows)} of {size} rollouts came; is reward.num_workers 1?"
            raise TimeoutError(message) from None
        return scored[place]

    def _score(self, rows: list[Row]) -> list[Row]:
        """One request; sent again where server or judge do not answer."""
        body = json.dumps({"rollouts": rows, "group_size": len(rows)}).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self._url}/v1/rewards", body, headers)
        pauses_s = iter(self._pauses_s)
        while True:
            try:
                with urlopen(request, timeout=TIMEOUT_S) as reply:
                    return json.load(reply)["rollouts"]
            except HTTPError as error:
                pause_s = next(pauses_s, None) if error.code == UNAVAILABLE else None
                if pause_s is None:
                    raise RuntimeError(f"HTTP {error.code}: {error.read().decode()}") from error
            except OSError:
                pause_s = next(pauses_s, None)
                if pause_s is None:
                    raise
            time.sleep(pause_s)


def _with_totals(rollouts: list[Row]) -> list[Row]:
    """There is no null in verl: a rollout without a total gets the group mean."""
    known = [one["total"] for one in rollouts if one["total"] is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [one | {"total": mean if one["total"] is None else one["total"]} for one in rollouts]
