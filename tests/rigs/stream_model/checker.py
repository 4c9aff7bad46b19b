"""The invariants of a failover, judged from documents, clusters and calls alone: no code of the failover is used.

Every change of the store and of a cluster is judged when it is made, by what the process that made it had read in its
own life, and by what really was so.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkakit.core.cluster_facts import LogSpan
from kafkakit.core.model import TopicPartition
from tests.rigs.failover import PARTITIONS, STREAM
from tests.rigs.stream_model.world import OLD, ROUTE_PATH, World

SHORT_S, LONG_S = 2.0, 125.0
WRITTEN = ("active", "draining", "stranded")


class ViolationError(AssertionError):
    """An invariant does not hold."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


@dataclass(kw_only=True)
class Notes:
    """What one process has read in its life, in the order of its calls."""

    calls: int = 0
    ends: dict[tuple[str, TopicPartition], list[tuple[int, float, LogSpan]]] = field(default_factory=dict)
    committed: dict[tuple[str, str], int] = field(default_factory=dict)
    denied: dict[str, bool] = field(default_factory=dict)
    listed: dict[str, frozenset[str]] = field(default_factory=dict)
    topics: dict[tuple[str, str], str] = field(default_factory=dict)
    offsets: dict[tuple[str, str], frozenset[TopicPartition]] = field(default_factory=dict)
    writes_after_loss: int = 0
    route_at_loss: int | None = None


class Checker:
    """Judges one world; `lives` are its processes by name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lives: dict[str, Notes] = {}

    def begin(self, name: str) -> None:
        self.lives[name] = Notes()

    # -- what processes read ------------------------------------------------------------------------

    def read(self, life: str, cluster: str, name: str, args: tuple[Any, ...], result: Any) -> None:
        notes, now_s = self.lives[life], self.world.clock.elapsed
        notes.calls += 1
        if name == "spans":
            for key, span in result.items():
                if isinstance(span, LogSpan):
                    notes.ends.setdefault((cluster, key), []).append((notes.calls, now_s, span))
        elif name == "committed":
            notes.committed[cluster, args[0]] = notes.calls
            notes.offsets[cluster, args[0]] = frozenset(result)
        elif name == "committed_by":
            for group, found in result.items():
                notes.committed[cluster, group] = notes.calls
                notes.offsets[cluster, group] = frozenset(found)
        elif name == "partition_states":
            for topic in args[0]:
                notes.topics[cluster, topic] = self.world.topic_id(cluster, topic)
        elif name == "groups":
            groups = self.world.clusters[cluster].groups._groups.items()
            found = (g for g, held in groups if any(key.topic == OLD for key in held.offsets))
            notes.listed[cluster] = frozenset(found)
        elif name == "describe_acls":
            notes.denied[cluster] = any(each.permission == "deny" for each in result or ())

    # -- what processes change ----------------------------------------------------------------------

    def before(self, life: Any, port: str, cluster: str, name: str, args: tuple[Any, ...]) -> Any:
        """What stood before a change."""
        version, _ = self.world.store.documents()[ROUTE_PATH]
        if port != "store":
            self._identity(life.name, cluster, name, args)
        if name == "commit":
            there = self.lives[life.name].offsets.get((cluster, args[0]))
            require(there is not None, "I4", f"offsets of group {args[0]} were not read before it was given some")
            require(not (there or set()) & set(args[1]), "I4", f"group {args[0]} had an offset in {sorted(args[1])}")
            for key, offset in args[1].items():
                require(offset.metadata == "", "I12", f"metadata {offset.metadata!r} was carried to {key}")
        if name in ("delete_topic", "delete_topic_by_id"):
            self._deletion(life, cluster, name, args[0])
        return version, self.world.route()

    def after(
        self, life: Any, before: Any, port: str, cluster: str, name: str, args: tuple[Any, ...], result: Any
    ) -> None:
        """Judge a change that was made."""
        version, old = before
        notes = self.lives[life.name]
        is_route = port == "store" and args[0] == ROUTE_PATH
        if self.world.holder != life.name and (port != "store" or is_route):
            notes.writes_after_loss += 1
            require(notes.writes_after_loss == 1, "I1", f"{life.name} went on without the lease: {name} {args[:1]}")
        if is_route:
            require(name == "cas" and args[2] == version, "I1", "the route was not changed by compare-and-set")
            self._route(life.name, old, self.world.route())

    def _identity(self, life: str, cluster: str, name: str, args: tuple[Any, ...]) -> None:
        """I11: whatever is changed is a topic that the route means, or one that is new."""
        if name == "alter_configs":
            names = {change.name for change in args[0]}
        elif name == "create_acls":
            names = {binding.name for binding in args[0]}
        elif name == "commit":
            names = {key.topic for key in args[1]}
        else:
            return
        for topic in names:
            known = [
                each
                for each in self._every_segment()
                if (each["cluster_id"], each["topic"]) == (f"{cluster}-id", topic)
            ]
            # What changes between a look and the change that follows it, no process can know.
            there = self.lives[life].topics.get((cluster, topic), "")
            is_meant = not known or any(each["topic_id"] == there for each in known)
            require(is_meant and there != "", "I11", f"{name} on {topic}, which was another topic at the last look")

    def _every_segment(self) -> Iterator[dict[str, Any]]:
        """All segments that ever were in a route."""
        for path, (_, value) in self.world.store.documents().items():
            if value and path.startswith(f"streams/{STREAM}/history/"):
                for lane in json.loads(value)["route"]["lanes"]:
                    yield from lane["segments"]

    def _route(self, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        require(new["epoch"] > old["epoch"], "I2", f"epoch {new['epoch']} after {old['epoch']}")
        operation = (new.get("operation") or old.get("operation") or {}).get("id")
        entry = self.world.store.documents().get(f"streams/{STREAM}/history/{new['epoch']:012d}", (0, b""))[1]
        is_named = bool(operation) and (str(operation).encode() in entry or "store_forgets" in self.world.happened)
        require(is_named, "I1", "a change of the route names no operation")
        states = {each["id"]: each for lane in new["lanes"] for each in lane["segments"]}
        for number, each in states.items():
            if each["state"] in ("draining", "stranded"):
                self.world.draining_since.setdefault(number, new["epoch"])
        for lane in new["lanes"]:
            active = sum(each["state"] == "active" for each in lane["segments"])
            require(active == 1, "I3", f"lane {lane['name']} has {active} active segments")
        for lane in old["lanes"]:
            for each in lane["segments"]:
                after = states.get(each["id"])
                self._segment(name, each, after)
        first = {each["id"]: each for lane in old["lanes"] for each in lane["segments"]}
        for number, each in states.items():
            if each["state"] == "active" and first.get(number, each)["state"] == "opened":
                self._activated(each, first)

    def _activated(self, segment: dict[str, Any], old: dict[int, dict[str, Any]]) -> None:
        """I4 and I14: before producers come."""
        cluster = self.world.clusters[segment["cluster"]]
        for each in old.values():
            if each["state"] == "active":
                require(each["partitions"] == segment["partitions"], "I14", "another number of partitions")
                require(not self.world.scenario.is_compacted, "I13", f"{each['topic']} is compacted, and no one agreed")
        require(
            self.world.topic_id(segment["cluster"], segment["topic"]) == segment["topic_id"], "I11", "another topic"
        )
        for group in self.world.required:
            for number in range(segment["partitions"]):
                key = TopicPartition(segment["topic"], number)
                found = cluster.groups._groups.get(group)
                commit = None if found is None else found.offsets.get(key)
                start = cluster.log.log(key).start
                # Where the store lost that producers came before, the group may have read since.
                place = (segment["topic_id"], number)
                read = {spot[2] for spot in self.world.handled[group] if spot[:2] == place}
                is_there = commit is not None and start <= commit.offset and read >= set(range(start, commit.offset))
                starts_itself = any(client.group == group for client in self.world.clients)
                require(is_there or starts_itself, "I4", f"group {group} has no offset at the start of {key}")

    def _segment(self, name: str, old: dict[str, Any], new: dict[str, Any] | None) -> None:
        if new is None:
            if old["state"] in WRITTEN:
                self._retired(name, old)
            return
        if old["seal"] and new["seal"] != old["seal"]:
            require(new["seal"] == [], "I6", "a seal was changed")
            notes = self.lives[name]
            grown = [p for p, end, *_ in old["seal"] if self._last(notes, old, p).end > end]
            require(bool(grown), "I6", "a seal was taken away although nothing grew")
        if new["seal"] and not old["seal"]:
            self._sealed(name, new)

    def _sealed(self, name: str, segment: dict[str, Any]) -> None:
        """I6 and I8: the process itself saw the ends stand still for the window, on a basis that it has proven."""
        notes, world = self.lives[name], self.world
        require(segment["state"] == "draining", "I6", f"a segment was sealed while it was {segment['state']}")
        routed = world.draining_since[segment["id"]]
        fenced = notes.denied.get(segment["cluster"], False) and world.is_denied(segment["cluster"], segment["topic"])
        if world.scenario.fence == "config":
            fenced = world.is_denied(segment["cluster"], segment["topic"])
        producers = [client for client in world.clients if client.kind == "producer"]
        moved = bool(producers) and all(client.epoch >= routed for client in producers)
        window_s = SHORT_S if fenced or moved else world.scenario.quiet_s or LONG_S
        for partition, end, stable, effective in segment["seal"]:
            reads = notes.ends.get((segment["cluster"], TopicPartition(segment["topic"], partition)), [])
            require(bool(reads), "I8", "a seal without a look of this process")
            require(reads[-1][2].end == end, "I6", f"sealed at {end}, read was {reads[-1][2].end}")
            require(end == stable == reads[-1][2].stable, "I6", f"sealed at {end} with a transaction open at {stable}")
            log = world.clusters[segment["cluster"]].log
            if world.topic_id(segment["cluster"], segment["topic"]) == segment["topic_id"]:
                data = [b.last + 1 for b in log.log(TopicPartition(segment["topic"], partition)).batches]
                require(effective <= end, "I6", "the effective end is above the end")
                data = [b.last + 1 for b in log.log(TopicPartition(segment["topic"], partition)).batches
                        if not b.attributes & 0x20 and b.last < end]  # fmt: skip
                require(
                    effective == max(data, default=effective), "I6", f"effective end {effective}, data ends at {data}"
                )
            same = [at for _, at, span in reads if span.end == end]
            first = next((i for i in range(len(reads)) if all(r[2].end == end for r in reads[i:])), len(reads))
            seen_s = reads[-1][1] - reads[first][1] if first < len(reads) else 0.0
            require(
                seen_s + 1e-6 >= window_s, "I8", f"ends seen for {seen_s:g} s of {window_s:g} s ({len(same)} looks)"
            )

    def _retired(self, name: str, segment: dict[str, Any]) -> None:
        """I5, I6, I10: a certificate, one more look at offsets and then at ends, and no group that was forgotten."""
        notes, cluster, topic = self.lives[name], segment["cluster"], segment["topic"]
        certificate = self._certificate(segment["id"])
        require(bool(segment["seal"]), "I5", "an unsealed segment left the route")
        require(certificate is not None, "I5", "a segment left the route without a certificate")
        assert certificate is not None
        require(
            [list(each) for each in certificate["partitions"]] == segment["seal"],
            "I5",
            "the certificate is of another seal",
        )
        groups = {each["group"]: each["committed"] for each in certificate["groups"]}
        missing = set(self.world.required) - set(groups)
        require(not missing, "I5", f"groups {sorted(missing)} are not in the certificate")
        for partition, end, _, effective in segment["seal"]:
            key = TopicPartition(topic, partition)
            number, _, span = self._last_read(notes, cluster, key)
            require(span.end == end, "I6", f"retired at {end}, the last look found {span.end}")
            for group in self.world.required:
                require(
                    notes.committed.get((cluster, group), number) < number, "I6", "ends were not read after offsets"
                )
                at = self.world.handled[group]
                spots = [s for s in self.world.acked - self.world.lost if s[:2] == (segment["topic_id"], partition)]
                unread = [s for s in spots if s[2] < effective and s not in at]
                require(not unread or "rewind" in self.world.happened, "I5", f"group {group} did not read {unread}")
        known = {*self.world.required, *groups}
        require(cluster in notes.listed, "I10", "retired without a look at all groups")
        unknown = notes.listed.get(cluster, frozenset()) - known
        require(not unknown, "I10", f"retired although {sorted(unknown)} had committed")

    def _deletion(self, life: Any, cluster: str, name: str, what: str) -> None:
        """I7: by id, out of the route, and what was written is read."""
        require(name == "delete_topic_by_id", "I7", "a topic was deleted by its name")
        in_route = [each for each in self.world.segments() if each["topic_id"] == what]
        require(not in_route, "I7", f"topic {what} is in the route and deleted")
        meant = [each for each in self._every_segment() if each["topic_id"] == what]
        spots = [spot for spot in self.world.acked - self.world.lost if spot[0] == what]
        notes = self.lives[life.name]
        if not meant or all(each["state"] == "opened" for each in meant):
            require(not spots, "I7", "a topic with records was deleted")
            return
        for partition in range(PARTITIONS):
            _, _, span = self._last_read(notes, cluster, TopicPartition(meant[0]["topic"], partition))
            for group in self.world.required:
                unread = [
                    s for s in spots if s[1] == partition and s[2] < span.end and s not in self.world.handled[group]
                ]
                require(not unread or "rewind" in self.world.happened, "I7", f"deleted before {group} read {unread}")

    def _certificate(self, segment: int) -> dict[str, Any] | None:
        found = None
        for path, (_, value) in sorted(self.world.store.documents().items()):
            if value and "/certificate/" in path and path.startswith(f"streams/{STREAM}/operations/"):
                for each in json.loads(value)["segments"]:
                    found = each if each["segment"] == segment else found
        return found

    def _last(self, notes: Notes, segment: dict[str, Any], partition: int) -> LogSpan:
        return self._last_read(notes, segment["cluster"], TopicPartition(segment["topic"], partition))[2]

    @staticmethod
    def _last_read(notes: Notes, cluster: str, key: TopicPartition) -> tuple[int, float, LogSpan]:
        reads = notes.ends.get((cluster, key), [])
        require(bool(reads), "I8", f"this process never looked at {key}")
        return reads[-1]

    def finished(self) -> None:
        """I9 and I5 at the end: the undisturbed result, and everything that was written to the stream is read."""
        world, segments = self.world, self.world.segments()
        require([each["state"] for each in segments] == ["active"], "I9", f"segments at the end: {segments}")
        require(segments[0]["cluster"] == "q" and not world.route().get("operation"), "I9", "the operation is not over")
        made = [name for name in world.clusters["q"].admin.topics if name.startswith(f"{STREAM}.")]
        empty = [name for name in made if name != segments[0]["topic"]]
        for name in empty:
            end = sum(world.clusters["q"].log.log(TopicPartition(name, n)).end for n in range(PARTITIONS))
            require(end == 0 or "early_write" in world.happened, "I9", f"records are left in {name}")
        for group in world.required:
            unread = {s for s in world.acked - world.lost if s[0] == segments[0]["topic_id"]} - world.handled[group]
            require(not unread, "I4", f"group {group} never reads {sorted(unread)}")


def require(holds: bool, name: str, text: str) -> None:
    """Raise for an invariant that does not hold."""
    if not holds:
        raise ViolationError(name, text)
