"""A chat client over a mapper, for the tests and for the process that they kill.

``python mapped_chat.py <url> <data> <requests>`` asks one batch through the cluster of RAY_ADDRESS.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chat_parts import request, settings
from resources.chat.client import ChatClient
from resources.chat.mapped import MappedChat
from resources.mapper.pools import PoolMapper
from resources.mapper.ray_mapper import RayMapper

IN_FLIGHT = 8


@contextmanager
def mapped_chat(
    url: str, data: Path, mapper: PoolMapper, **changes: object
) -> Iterator[MappedChat]:
    """A client of the server at ``url`` whose requests the mapper's workers send."""
    limits = settings(url, **{"concurrency": IN_FLIGHT, "call_deadline_s": 120.0} | changes)
    with ChatClient(limits, data) as client:
        yield MappedChat(client, limits, lambda: ((url,), None), mapper)


if __name__ == "__main__":
    url, data, count = sys.argv[1:]
    with mapped_chat(url, Path(data), RayMapper()) as chat:
        chat.complete([request(number) for number in range(int(count))])
