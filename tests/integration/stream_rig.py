"""Streams on a sandbox, members of a group in threads and in processes of their own, and what they did."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.config.security import to_confluent, to_kafka_python
from kafkakit.core.cluster_facts import CommittedOffset, GroupDescription
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import GroupConsumer
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.dead_letters import BATCH_LIMIT_BYTES, ConsumerHooks, ConsumerOptions
from kafkakit.streams.client.decide.partition_work import restore_commit
from kafkakit.streams.client.decide.work_rules import RetryRule, WorkRules
from kafkakit.streams.client.guarded_member import GuardedMember
from kafkakit.streams.model.commit import CommitIdentity, CommitState, topic_id_text
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from tests.integration.conftest import SandboxCluster
from tests.integration.test_streams_contract import open_groups
from tests.rigs.waiting import WAIT_S, until

SESSION_MS = 120_000
"""Members leave when they end, and killed ones are removed; one that pauses stays in its group."""
MEMBER = Path(__file__).with_name("stream_member.py")
RETRY = RetryRule(first_ms=30, max_ms=200, max_tries=3)
Place = tuple[int, int]


def guarded_member(cluster: SandboxCluster, group: str) -> GuardedMember:
    """A member that judges batches before it decodes them."""
    servers, security = cluster.bootstrap_servers, cluster.security
    member = KafkaGroupConsumer(servers, security, group, session_timeout_ms=SESSION_MS, fetches=False)
    log = KafkaLog(servers, security, request_timeout_s=10, committed=True)
    return GuardedMember(member, log, SystemClock(), limit_bytes=BATCH_LIMIT_BYTES)


class StreamRig:
    """One stream whose topics are on one cluster."""

    def __init__(
        self, cluster: SandboxCluster, stream: str, partitions: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        self.cluster, self.stream, self.partitions = cluster, stream, partitions
        self.segments: dict[str, list[Segment]] = {}
        self.epoch = 0
        self.settings = dict(settings or {})
        self.route: Route
        self.add_segment("live")

    def add_segment(self, lane: str) -> Segment:
        """A topic for the lane, which takes its writes from now on; the route's epoch grows."""
        self.epoch += 1
        topic = f"{self.stream}.{lane}.{self.epoch}"
        with closing(self.cluster.open_admin()) as admin:
            brokers = self.cluster.broker_ids
            assert admin.create_topic(topic, dict.fromkeys(range(self.partitions), brokers[:1]), self.settings) is None
        with closing(KafkaLog(self.cluster.bootstrap_servers, self.cluster.security)) as log:
            topic_id = log.places([topic])[topic].topic_id
        segment = Segment(
            id=self.epoch,
            cluster="main",
            cluster_id=self.cluster.cluster_id,
            topic=topic,
            topic_id=topic_id_text(topic_id),
            partitions=self.partitions,
            state=SegmentState.ACTIVE,
        )
        old = [self._draining(one) for one in self.segments.get(lane, [])]
        self.segments[lane] = [*old, segment]
        self.publish()
        return segment

    def retire(self, segment: Segment) -> None:
        """Take a segment out of the route."""
        self.epoch += 1
        for lane, some in self.segments.items():
            self.segments[lane] = [one for one in some if one.id != segment.id]
        self.publish()

    def publish(self) -> None:
        """Make the route that members follow."""
        lanes = tuple(Lane(name=name, segments=tuple(some)) for name, some in self.segments.items())
        self.route = Route(stream=self.stream, epoch=self.epoch, next_segment=self.epoch + 1, lanes=lanes)

    def _draining(self, segment: Segment) -> Segment:
        from dataclasses import replace

        return replace(segment, state=SegmentState.DRAINING)

    def write(self, segment: Segment, numbers: range) -> None:
        """One record a number: the value says it, the key is one of 20, partitions take turns."""
        self.write_keyed(segment, [(number, number % 20) for number in numbers])

    def write_keyed(
        self, segment: Segment, records: Iterable[tuple[int, int]], time_ms: Callable[[int], int] = lambda number: 0
    ) -> None:
        """A record for each number and key; partitions take turns. 0 is the time of writing."""
        from confluent_kafka import Producer

        client = Producer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "acks": "all", **to_confluent(self.cluster.security)}
        )
        failures: list[str] = []
        for number, key in records:
            client.produce(
                segment.topic,
                value=b"%d" % number,
                key=b"%d" % key,
                partition=number % self.partitions,
                timestamp=time_ms(number),
                on_delivery=lambda error, _: failures.append(str(error)) if error else None,
            )
            client.poll(0)
        assert client.flush(WAIT_S) == 0
        assert not failures

    def member(
        self,
        group: str,
        *,
        work: WorkRules | None = None,
        hooks: ConsumerHooks | None = None,
        strict: bool = False,
        **more: Any,
    ) -> StreamConsumer:
        """A consumer in this process; `more` are its handler and options."""

        def open_member(profile: str, name: str) -> GroupConsumer:
            if strict:
                return guarded_member(self.cluster, name)
            return KafkaGroupConsumer(
                self.cluster.bootstrap_servers, self.cluster.security, name, session_timeout_ms=SESSION_MS
            )

        handler = {name: more.pop(name) for name in list(more) if name.endswith("handler")}
        return StreamConsumer(
            group=group,
            route=lambda: self.route,
            open_member=open_member,
            clock=SystemClock(),
            options=ConsumerOptions(
                **{
                    "work": work or WorkRules(retry=RETRY),
                    "concurrency": 8,
                    "revoke_s": WAIT_S,
                    "close_s": WAIT_S,
                    **more,
                }
            ),
            hooks=hooks,
            open_log=lambda _: KafkaLog(self.cluster.bootstrap_servers, self.cluster.security),
            **handler,
        )

    def committed(self, group: str, segment: Segment) -> dict[int, CommitState]:
        """What a new member would begin with, by partition; from the start where nothing is committed."""
        from confluent_kafka import Consumer
        from confluent_kafka import TopicPartition as ClientPlace

        client = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": group,
                **to_confluent(self.cluster.security),
            }
        )
        try:
            places = [ClientPlace(segment.topic, number) for number in range(self.partitions)]
            found = client.committed(places, timeout=WAIT_S)
        finally:
            client.close()
        with closing(KafkaLog(self.cluster.bootstrap_servers, self.cluster.security)) as log:
            topic_id = log.places([segment.topic])[segment.topic].topic_id
        states = {}
        for place in found:
            identity = CommitIdentity(
                cluster_id=self.cluster.cluster_id, topic_id=topic_id, partition=place.partition, group=group
            )
            commit = CommittedOffset(offset=max(0, place.offset), metadata=place.metadata or "")
            restored = restore_commit(commit, identity)
            assert not restored.problem
            states[place.partition] = restored.state
        return states

    def ends(self, segment: Segment) -> dict[int, int]:
        """Where each partition ends."""
        with closing(KafkaLog(self.cluster.bootstrap_servers, self.cluster.security)) as log:
            spans = log.spans([TopicPartition(segment.topic, number) for number in range(self.partitions)])
        return {key.partition: span.end for key, span in spans.items() if hasattr(span, "end")}


def forget_members(cluster: SandboxCluster, group: str) -> None:
    """Take all members out of a group, which would keep their partitions until the session ends."""
    from kafka.admin import KafkaAdminClient, MemberToRemove
    from kafka.errors import NoError

    with closing(open_groups(cluster)) as groups:
        found = groups.describe([group])[group]
    assert isinstance(found, GroupDescription), found
    gone = [MemberToRemove(member_id=one.member_id) for one in found.members]
    servers, security = cluster.bootstrap_servers.split(","), to_kafka_python(cluster.security)
    with closing(KafkaAdminClient(bootstrap_servers=servers, **security)) as admin:
        answers = admin.remove_group_members(group, gone)
    assert set(answers.values()) == {NoError}, answers


@dataclass(kw_only=True)
class MemberProcess:
    """A member in a process of its own; it writes a line for each record into `trace` before the handler returns."""

    rig: StreamRig
    group: str
    trace: Path
    options: Mapping[str, object] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0

    def start(self, most: int = 0) -> None:
        """Begin another life, in which it takes `most` records, or without an end (0)."""
        from kafkakit.streams.model.route import encode_route

        given = {
            "servers": self.rig.cluster.bootstrap_servers,
            "group": self.group,
            "trace": str(self.trace),
            "route": encode_route(self.rig.route).decode(),
            "session_ms": SESSION_MS,
            "most": most,
            **self.options,
        }
        self.lives += 1
        self.process = subprocess.Popen(
            [sys.executable, str(MEMBER), json.dumps(given)], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        )

    def kill(self) -> None:
        """SIGKILL it."""
        assert self.process is not None
        assert self.process.poll() is None, "the member ended by itself"
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._remove()

    def _remove(self) -> None:
        forget_members(self.rig.cluster, self.group)

    def end(self) -> None:
        """SIGTERM it, and wait until it has closed."""
        assert self.process is not None
        until(lambda: len(self.lines("ready")) == self.lives, "the member does not begin")
        self.process.terminate()
        assert self.process.wait(WAIT_S) == 0

    def lines(self, kind: str) -> list[tuple[str, int, int]]:
        """The records that it handled (`done`) or wrote to the dead letters (`dead`): number, partition, offset."""
        if not self.trace.exists():
            return []
        words = [line.split() for line in self.trace.read_text().splitlines()]
        return [(number, int(partition), int(offset)) for what, number, partition, offset in words if what == kind]

    def handled(self) -> Counter[Place]:
        """How often each record was handled."""
        return Counter((partition, offset) for _, partition, offset in self.lines("done"))
