"""Which broker answers for a group, and asking it until it does."""

import time
from collections.abc import Callable, Collection
from typing import Any

from kafkakit.adapters.kafka.errors import UNKNOWN_TOPIC, error_from, error_of
from kafkakit.adapters.kafka.session import KafkaSession
from kafkakit.core.cluster_facts import ItemError

OFFSETS_TOPIC = "__consumer_offsets"
MOVED = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: nothing was done, ask again."""
KEYS_PER_REQUEST = 500
PAUSE_S = 0.1
Codes = Callable[[Any], set[int]]


class Coordinators(KafkaSession):
    """A session that remembers coordinators and follows them; a move is waited for up to `request_timeout_s`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._coordinators: dict[str, int] = {}
        self._topic_seen = False

    def ready(self) -> bool:
        """Whether the cluster has an offsets topic; to ask for a coordinator would create it."""
        from kafka.protocol.metadata import MetadataRequest

        if not self._topic_seen:
            topics = [MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            answer = self.request("look for the offsets topic", request)
            # Who may not see the topic may see groups, so only a topic that is not there counts.
            self._topic_seen = all(topic.error_code != UNKNOWN_TOPIC for topic in answer.topics)
        return self._topic_seen

    def find(self, groups: Collection[str]) -> dict[str, int | ItemError]:
        """The coordinator of each group; one request for each 500 that are not remembered."""
        from kafka.protocol.metadata import FindCoordinatorRequest

        found: dict[str, int | ItemError] = {g: self._coordinators[g] for g in groups if g in self._coordinators}
        missing = sorted(set(groups) - found.keys())
        for at in range(0, len(missing), KEYS_PER_REQUEST):
            part = missing[at : at + KEYS_PER_REQUEST]
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=part, min_version=4)
            for answer in self.request("find coordinators", request).coordinators:
                error = error_of(answer.error_code, answer.error_message)
                found[answer.key] = error or answer.node_id
                if error is None:
                    self._coordinators[answer.key] = answer.node_id
        return found

    def forget(self, groups: Collection[str]) -> None:
        """Find the coordinators of these groups again."""
        for group in groups:
            self._coordinators.pop(group, None)

    def ask_coordinator(self, group: str, request: Callable[[], Any], codes: Codes, *, repeat: bool) -> Any | ItemError:
        """Ask the coordinator of a group, wherever it moves; returns the response or why there is none.

        With `repeat` False a request is sent again only when it is known that it had no effect, and only where no
        coordinator was known before: who has read from one that is gone must read again before it writes.
        """
        deadline = time.monotonic() + self.request_timeout_s
        follows = repeat or group not in self._coordinators
        while True:
            broker = self.find([group])[group]
            if isinstance(broker, ItemError):
                error = broker
            elif not repeat and not self._answers(broker):
                # A request on a connection that cannot be made fails like one whose answer is lost: send none.
                error = ItemError(name="CoordinatorNotAvailableError", message=f"broker {broker}", retriable=True)
            else:
                answer = self._fan_out({broker: request()})[broker]
                moved = set() if isinstance(answer, Exception) else codes(answer) & MOVED
                if not isinstance(answer, Exception) and not moved:
                    return answer
                error = error_from(answer) if isinstance(answer, Exception) else _error(min(moved))
                if isinstance(answer, Exception) and not repeat:
                    self.forget([group])
                    return error
            self.forget([group])
            if not follows or not error.retriable or time.monotonic() > deadline:
                return error
            time.sleep(PAUSE_S)

    def _answers(self, broker: int) -> bool:
        from kafka.protocol.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return not isinstance(self._fan_out({broker: request})[broker], Exception)


def _error(code: int) -> ItemError:
    error = error_of(code)
    if error is None:
        raise ValueError(f"the error code {code} stands for no error")
    return error
