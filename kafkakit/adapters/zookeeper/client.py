"""Clients of ZooKeeper through kazoo, and the words of its errors."""

import logging
import warnings
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from kafkakit.core.errors import TryLaterError


def start_client(hosts: str, *, session_s: float, wait_s: float, hint: str, read_only: bool = False) -> Any:
    """A connected client; raises `TryLaterError` with the hint where no server answers within `wait_s`.

    A `read_only` one also reads from a server without a majority.
    """
    # kazoo logs each failed attempt; the one line at the end is enough.
    logger = logging.getLogger("kafkakit.zookeeper")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    client = KazooClient(hosts=hosts, timeout=session_s, read_only=read_only, logger=logger)
    try:
        with warnings.catch_warnings(action="ignore"):
            client.start(timeout=wait_s)
    except (KazooException, client.handler.timeout_exception, OSError) as error:
        raise TryLaterError(
            f"Failed to connect to ZooKeeper {hosts} within {wait_s:g} s ({error_text(error)})", hint=hint
        ) from None
    return client


def error_text(error: BaseException) -> str:
    """An error of kazoo in one line, which may have no text of its own."""
    return " ".join(str(error).split())[:200] or type(error).__name__
