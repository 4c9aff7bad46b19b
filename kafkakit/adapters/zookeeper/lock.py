"""kafka-kit's lock in ZooKeeper: a queue of ephemeral sequential znodes, of which the lowest number holds the lock.

Each claim is `<path>/_c_<guid>-lock-<number>` and holds JSON with the time from which others may delete it. The znode
goes with the session, so a process that dies holds nothing for longer than its session lasts.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from kafkakit.adapters.zookeeper.client import error_text, start_client
from kafkakit.core.errors import TryLaterError
from kafkakit.core.zookeeper_address import parse_zookeeper_address

PATH = "/registry/locks"
SESSION_S = 10.0
RELEASE_TRIES = 3
LOOK_EVERY_S = 1.0
"""How often it is looked whether the time of the claim ahead is over."""
RELEASE_PAUSE_S = 0.125
_HINT = "check zookeeper.addr, and which program holds the lock"


class ZooKeeperLock:
    """Holds the lock for one block at a time and thread; connects on first use.

    `wait_s` bounds the wait for it, `ttl_s` how long other programs respect a claim. Raises `TryLaterError`.
    """

    def __init__(self, address: str, now: Callable[[], datetime], *, wait_s: float, ttl_s: float) -> None:
        self._hosts, _ = parse_zookeeper_address(address, "zookeeper.addr")
        self._now, self._wait_s, self._ttl = now, wait_s, timedelta(seconds=ttl_s)
        self._client: Any = None
        self._opening = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for the block."""
        client = self._connected()
        try:
            claim = self._claim(client)
        except KazooException as error:
            self.close()  # with the session goes a claim whose answer was lost
            raise _failed(f"attempt to acquire lock failed: {error_text(error)}") from None
        try:
            yield
        finally:
            self._release(client, claim)

    def close(self) -> None:
        """End the session, and with it every claim; closing twice is harmless."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _claim(self, client: Any) -> str:
        now = self._now().astimezone(UTC)
        times = {"timestamp": now, "ttl_deadline": now + self._ttl}
        document = {key: at.strftime("%Y-%m-%dT%H:%M:%SZ") for key, at in times.items()}
        data = json.dumps({**document, "owner_id": "kafkakit"}, separators=(",", ":")).encode()
        name = f"{PATH}/_c_{secrets.token_hex(16)}-lock-"
        made: str = client.create(name, data, ephemeral=True, sequence=True, makepath=True)
        claim, end_s = made.rpartition("/")[2], time.monotonic() + self._wait_s
        try:
            while (ahead := _ahead_of(claim, client.get_children(PATH))) is not None:
                if not self._is_expired(client, ahead):
                    _wait_for(client, ahead, min(LOOK_EVERY_S, end_s - time.monotonic()))
                if time.monotonic() >= end_s:
                    raise _failed("attempt to acquire lock timed out")
        except BaseException:
            self._release(client, claim)
            raise
        return claim

    def _is_expired(self, client: Any, claim: str) -> bool:
        """Whether a claim's time is over; then it is deleted."""
        with suppress(NoNodeError):
            data, _ = client.get(f"{PATH}/{claim}")
            if (deadline := _deadline_of(data)) is None or self._now() <= deadline:
                return False
            client.delete(f"{PATH}/{claim}")
        return True

    def _release(self, client: Any, claim: str) -> None:
        for tries_left in reversed(range(RELEASE_TRIES)):
            try:
                client.delete(f"{PATH}/{claim}")
            except NoNodeError:
                return
            except KazooException:
                if not tries_left:
                    self.close()
                    return
                time.sleep(RELEASE_PAUSE_S)
            else:
                return

    def _connected(self) -> Any:
        with self._opening:
            if self._client is None:
                client = start_client(self._hosts, session_s=SESSION_S, wait_s=self._wait_s, hint=_HINT)
                try:
                    with suppress(NodeExistsError):
                        client.ensure_path(PATH)
                except (KazooException, client.handler.timeout_exception, OSError) as error:
                    client.stop()
                    raise _failed(f"cannot use {PATH} in ZooKeeper {self._hosts} ({error_text(error)})") from None
                self._client = client
            return self._client


def _ahead_of(claim: str, names: list[str]) -> str | None:
    """The claim just before ours; None where ours is the first. Names that end with no number are none."""
    numbers = {name: int(number) for name in names if (number := name.rpartition("-")[2]).isdigit()}
    if claim not in numbers:
        raise _failed("attempt to acquire lock failed: the claim was deleted by another program")
    earlier = [name for name, number in numbers.items() if number < numbers[claim]]
    return max(earlier, key=lambda name: numbers[name], default=None)


def _wait_for(client: Any, claim: str, limit_s: float) -> None:
    """Wait until a claim is gone, or so long."""
    gone = threading.Event()
    if client.exists(f"{PATH}/{claim}", watch=lambda _: gone.set()) is not None:
        gone.wait(max(0.0, limit_s))


def _deadline_of(data: bytes) -> datetime | None:
    try:
        found = datetime.fromisoformat(json.loads(data)["ttl_deadline"])
    except (ValueError, KeyError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _failed(text: str) -> TryLaterError:
    return TryLaterError(text, hint=_HINT)
