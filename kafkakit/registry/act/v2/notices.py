"""Changes of tags by other programs, entered into the history when a reading of the cluster shows them."""

from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Thread
from time import monotonic

from kafkakit.core.errors import KafkakitError
from kafkakit.registry.act.tag_history import TagHistory
from kafkakit.registry.decide.inventory import NO_TAGS, Touched

MAX_WAITING = 10_000
"""More are found when the object is changed or its history read the next time, without the earlier values."""
COMPACT_EVERY_S = 6 * 3600.0
_LOOK_S = 60.0


class Notices:
    """Follows an inventory, and enters what it shows from a thread of its own; also drops what is too old."""

    def __init__(self, history: TagHistory) -> None:
        self._history = history
        self._queue: Queue[Touched | None] = Queue(MAX_WAITING)
        self._thread: Thread | None = None

    def take(self, touched: Sequence[Touched]) -> None:
        """Take note of tags that are not those that were known; returns at once."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name="history", daemon=True)
            self._thread.start()
        with suppress(Full):
            for each in touched:
                if each.old_tags is not None:
                    self._queue.put_nowait(each)

    def stop(self) -> None:
        """End the thread after what it is at."""
        with suppress(Full):
            self._queue.put_nowait(None)

    def _work(self) -> None:
        compact_at_s = monotonic() + COMPACT_EVERY_S
        while True:
            # A store that does not answer: the change shows again with the next one of the object.
            with suppress(Empty, KafkakitError):
                each = self._queue.get(timeout=_LOOK_S)
                if each is None:
                    return
                self._history.notice(each.kind, each.name, each.old_tags or NO_TAGS)
            if monotonic() >= compact_at_s:
                compact_at_s = monotonic() + COMPACT_EVERY_S
                with suppress(KafkakitError):
                    self._history.compact()
