"""What producers and consumers of a stream did, counted from their traces and from the brokers.

It shares no code with the client: records are read with confluent-kafka, commits as raw records of
`__consumer_offsets`, and the route's epoch is taken out of commit metadata by the few lines here.
"""

import base64
import json
import struct
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

READ_S = 120.0
NUL = "\0"
CORRUPT, TOO_LARGE = b"batch corrupt", b"batch too large"
LARGEST_BYTES = 500 << 20


class Spot(NamedTuple):
    """Where a record lies; topics of a campaign have names of their own on every cluster."""

    topic: str
    partition: int
    offset: int


@dataclass(kw_only=True, slots=True)
class Verdict:
    """The counts of a run; `problems` is empty where every promise was kept."""

    acknowledged: int = 0
    written: int = 0
    handled: int = 0
    rejected: int = 0
    written_twice: int = 0
    written_twice_budget: int = 0
    handled_again: int = 0
    handled_again_budget: int = 0
    rejected_twice: int = 0
    passed: int = 0
    kept: int = 0
    commits: int = 0
    longest_chars: int = 0
    lives: int = 0
    problems: list[str] = field(default_factory=list)

    def require(self, holds: object, what: str) -> None:
        """Note a promise that was not kept."""
        if not holds:
            self.problems.append(what)


def read_log(servers: str, topics: Collection[str]) -> Iterator[Any]:
    """Every record of the topics that is there now, as confluent-kafka's messages."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "checker", "enable.partition.eof": True,
         "auto.offset.reset": "error", "isolation.level": "read_uncommitted", "log_level": 0,
         # An end is told where nothing came for so long: with the usual 500 ms never, while commits go on.
         "fetch.wait.max.ms": 10, "receive.message.max.bytes": LARGEST_BYTES}
    )  # fmt: skip
    try:
        found = consumer.list_topics(timeout=READ_S).topics
        places = [
            TopicPartition(name, n, 0) for name in sorted(topics) if name in found for n in found[name].partitions
        ]
        left = {(p.topic, p.partition): consumer.get_watermark_offsets(p, timeout=READ_S)[1] for p in places}
        consumer.assign(places)
        deadline = time.monotonic() + READ_S
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{servers}: {sorted(left)} cannot be read to their ends")
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                key = message.topic(), message.partition()
                if error is None:
                    yield message
                    if message.offset() + 1 >= left.get(key, 0):
                        left.pop(key, None)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.pop(key, None)
                else:
                    raise OSError(f"{message.topic()}: {error.str()}")
    finally:
        consumer.close()


def notes(servers: str, topics: Collection[str]) -> Iterator[Spot]:
    """Every record of the batches that dead letters tell to be passed over, as damaged or as too large."""
    for message in read_log(servers, topics):
        facts = dict(message.headers() or ())
        if facts.get("kafkakit-reason") in (CORRUPT, TOO_LARGE):
            note = json.loads(message.value())
            topic, partition = facts["kafkakit-topic"].decode(), int(facts["kafkakit-partition"])
            assert note["first_offset"] == int(facts["kafkakit-offset"]), note
            yield from (Spot(topic, partition, at) for at in range(note["first_offset"], note["last_offset"] + 1))


def letters(servers: str, topics: Collection[str], log: Mapping[Spot, int] | None = None) -> Iterator[tuple[Spot, int]]:
    """Where each dead letter comes from, and its time in ms; `ValueError` where `log` has another value there.

    Those that `notes` tells are not among them.
    """
    for message in read_log(servers, topics):
        facts = dict(message.headers() or ())
        if facts.get("kafkakit-reason") in (CORRUPT, TOO_LARGE):
            continue
        spot = Spot(facts["kafkakit-topic"].decode(), int(facts["kafkakit-partition"]), int(facts["kafkakit-offset"]))
        if log is not None and log.get(spot) != int(message.value()):
            raise ValueError(f"a dead letter of {spot} is {message.value()!r}")
        yield spot, message.timestamp()[1]


class Commit(NamedTuple):
    """One commit in the order of the log."""

    group: str
    topic: str
    partition: int
    offset: int
    text: str


def commits(servers: str) -> Iterator[Commit]:
    """Every commit that is still in `__consumer_offsets`, in the order of the log."""
    for message in read_log(servers, ["__consumer_offsets"]):
        key, value = message.key(), message.value()
        if key is None or value is None or struct.unpack_from(">h", key)[0] not in (0, 1):
            continue
        at, parts = 2, []
        for _ in range(2):
            (length,) = struct.unpack_from(">h", key, at)
            parts.append(key[at + 2 : at + 2 + length].decode())
            at += 2 + length
        (partition,) = struct.unpack_from(">i", key, at)
        version, offset = struct.unpack_from(">hq", value)
        if version >= 4:
            length, start = _uvarint(value, 14)
            length -= 1
        else:
            start = 16 if version == 3 else 12
            (length,) = struct.unpack_from(">h", value, start - 2)
        text = value[start : start + length].decode().rstrip(NUL)
        yield Commit(parts[0], parts[1], partition, offset, text)


def epoch_of(text: str) -> int | None:
    """The route's epoch in KKM1 metadata: section 4 of the body; None in other alphabets."""
    if not text.startswith("~b"):
        return None
    data = base64.urlsafe_b64decode(text[2:] + "=" * (-len(text[2:]) % 4))
    if data[0] & 1:
        import zstandard

        data = data[:5] + zstandard.ZstdDecompressor().decompress(data[5:], max_output_size=1 << 16)
    at = 5
    while at < len(data):
        tag, at = _uvarint(data, at)
        if not tag:
            return None
        length, at = _uvarint(data, at)
        if tag == 4:
            return _uvarint(data, at)[0]
        at += length
    return None


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


@dataclass(kw_only=True)
class Life:
    """One start of a process, as its trace tells it.

    `allowed` are the records that may be handled once more by another life, by partition: what the latest figures said,
    and what was handled after them.
    """

    name: str
    acked: dict[int, Spot] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    sent_again: int = 0
    done: list[tuple[Spot, int]] = field(default_factory=list)
    allowed: Counter[tuple[str, int]] = field(default_factory=Counter)
    epochs: list[int] = field(default_factory=list)
    problems: set[str] = field(default_factory=set)
    is_ended: bool = False


def lives(folder: Path) -> list[Life]:
    """The lives of all processes; a line that SIGKILL cut short is left out."""
    return [_life(path) for path in sorted(folder.glob("*.trace"))]


def _life(path: Path) -> Life:
    life, budget = Life(name=path.stem), _Budget()
    for line in path.read_text().splitlines(keepends=True):
        word, *rest = line.split()
        if not line.endswith("\n"):
            continue
        if word == "sent":
            life.sent.add(int(rest[0]))
        elif word == "acked":
            life.acked[int(rest[0])] = Spot(rest[1], int(rest[2]), int(rest[3]))
        elif word == "again":
            life.sent_again = int(rest[0])
        elif word == "done":
            life.done.append((Spot(rest[0], int(rest[1]), int(rest[2])), int(rest[3])))
        elif word == "figures":
            life.epochs.append(int(rest[0]))
        elif word == "problem":
            life.problems.add(" ".join(rest))
        life.is_ended |= word == "end"
        budget.read(word, rest)
    life.allowed = budget.allowed + budget.now
    return life


@dataclass(slots=True)
class _Budget:
    """What a consumer may cause to be handled again: `now` for the partitions that it has, `allowed` for the others.

    `since` is what was handled while figures were taken: they may have it, or not.
    """

    allowed: Counter[tuple[str, int]] = field(default_factory=Counter)
    now: Counter[tuple[str, int]] = field(default_factory=Counter)
    since: Counter[tuple[str, int]] = field(default_factory=Counter)
    shown: Counter[tuple[str, int]] = field(default_factory=Counter)
    handled: dict[tuple[str, int], int] = field(default_factory=dict)

    def read(self, word: str, rest: list[str]) -> None:
        if word == "done":
            self.now[rest[0], int(rest[1])] += 1
            self.since[rest[0], int(rest[1])] += 1
        elif word == "look":
            self.since.clear()
        elif word == "figure":
            place = rest[0], int(rest[1])
            self.shown[place] = int(rest[2])
            if int(rest[3]) < self.handled.get(place, 0):  # it was taken away, and came back
                self.allowed[place] += self.now[place]
            self.handled[place] = int(rest[3])
        elif word == "figures":
            # A partition that is gone went with what the figures before said, and what came after them.
            for place in self.now.keys() - self.shown.keys():
                self.allowed[place] += self.now[place]
            self.now = self.shown + self.since
            self.shown = Counter()


def check(
    folder: Path, clusters: Mapping[str, str], *, topics: Collection[str], dlq: Collection[str], group: str,
    is_rejected: Any = lambda number: False, unread: Collection[str] = (), is_compacted: bool = False,
    kept: Mapping[Spot, int] | None = None,
) -> Verdict:  # fmt: skip
    """Count a finished run.

    `clusters` are addresses by name, `topics` all that producers wrote to and `dlq` the dead letters; `is_rejected`
    tells by its number whether a record must be among the latter. `unread` are topics without a consumer. Where topics
    are compacted, a record may be away that one after it in its partition has the key of: keys are numbers modulo 50.
    `kept` are records that an operator has in files, and had the group pass without handling them.
    """
    kept = kept or {}
    found, told = Verdict(), lives(folder)
    found.lives = len(told)
    log: dict[Spot, int] = {}
    dead: Counter[Spot] = Counter()
    for servers in clusters.values():
        for message in read_log(servers, topics):
            log[Spot(message.topic(), message.partition(), message.offset())] = int(message.value())
    away = {spot: number for spot, number in _replaced(told).items() if spot not in log} if is_compacted else {}
    log |= away
    passed: Counter[Spot] = Counter()
    for servers in clusters.values():
        dead += Counter(spot for spot, _ in letters(servers, dlq, None if is_compacted else log))
        passed += Counter(notes(servers, dlq))
    found.passed, found.kept = len(passed), len(kept)
    other = [spot for spot, number in kept.items() if log.get(spot) != number]
    found.require(not other, f"{len(other)} records in quarantine are other ones, first {other[:1]}")
    passed.update(kept)
    _check_producers(found, told, log)
    read = {spot: number for spot, number in log.items() if spot.topic not in unread and spot not in passed}
    _check_consumers(found, told, read, dead, is_rejected, away)
    _check_commits(found, clusters, group)
    for life in told:
        found.require(life.epochs == sorted(life.epochs), f"{life.name}: its epochs went down: {life.epochs}")
    return found


def _replaced(told: list[Life]) -> dict[Spot, int]:
    """What was acknowledged or handled, and is not the last of its key in its partition."""
    known = {spot: number for life in told for number, spot in life.acked.items()}
    known |= {spot: number for life in told for spot, number in life.done}
    last: dict[tuple[str, int, int], int] = {}
    for spot, number in known.items():
        key = (spot.topic, spot.partition, number % 50)
        last[key] = max(last.get(key, -1), spot.offset)
    return {spot: n for spot, n in known.items() if spot.offset < last[spot.topic, spot.partition, n % 50]}


def _check_producers(found: Verdict, told: list[Life], log: Mapping[Spot, int]) -> None:
    copies = Counter(log.values())
    found.written, found.written_twice = len(log), len(log) - len(copies)
    for life in told:
        found.acknowledged += len(life.acked)
        # A killed producer may have sent again what had no answer since it told of that last.
        found.written_twice_budget += life.sent_again + (0 if life.is_ended else len(life.sent - life.acked.keys()))
        lost = [number for number, spot in life.acked.items() if log.get(spot) != number]
        found.require(not lost, f"{life.name}: {len(lost)} acknowledged records are not there, first {lost[:1]}")
    found.require(
        found.written_twice <= found.written_twice_budget,
        f"{found.written_twice} records were written twice, {found.written_twice_budget} were foretold",
    )


def _check_consumers(
    found: Verdict, told: list[Life], log: Mapping[Spot, int], letters: Counter[Spot], is_rejected: Any,
    away: Collection[Spot],
) -> None:  # fmt: skip
    done: Counter[Spot] = Counter(spot for life in told for spot, _ in life.done)
    wrong = [(spot, number) for life in told for spot, number in life.done if log.get(spot) != number]
    found.require(not wrong, f"{len(wrong)} handled records were another one, first {wrong[:1]}")
    found.handled, found.rejected = len(done), len(letters)
    lost = sorted(spot for spot in log if not done[spot] and not letters[spot] and spot not in away)
    found.require(not lost, f"{len(lost)} of {len(log)} records were not handled, first {lost[:3]}")
    missing = [s for s, number in log.items() if is_rejected(number) and not letters[s] and s not in away]
    found.require(not missing, f"{len(missing)} rejected records are no dead letters, first {missing[:1]}")
    odd = [spot for spot in letters if spot in log and not is_rejected(log[spot])]
    found.require(not odd, f"{len(odd)} good records are dead letters, first {odd[:1]}")
    found.rejected_twice = letters.total() - len(letters)
    again: Counter[tuple[str, int]] = Counter()
    for spot, count in done.items():
        again[spot.topic, spot.partition] += count - 1
    allowed: Counter[tuple[str, int]] = Counter()
    for life in told:
        allowed += life.allowed
    found.handled_again, found.handled_again_budget = again.total(), allowed.total()
    for place, count in sorted(again.items()):
        found.require(count <= allowed[place], f"{place}: {count} were handled again, {allowed[place]} were foretold")


def _check_commits(found: Verdict, clusters: Mapping[str, str], group: str) -> None:
    for name, servers in clusters.items():
        newest: dict[tuple[str, int], Commit] = {}
        for commit in commits(servers):
            if commit.group != group:
                continue
            found.commits += 1
            found.longest_chars = max(found.longest_chars, len(commit.text))
            before = newest.get((commit.topic, commit.partition))
            if before is not None:
                found.require(commit.offset >= before.offset, f"{name}: a commit went back: {before}, {commit}")
                older, newer = epoch_of(before.text), epoch_of(commit.text)
                found.require(
                    older is None or newer is None or newer >= older, f"{name}: an epoch went down: {before}, {commit}"
                )
            newest[commit.topic, commit.partition] = commit


def committed(servers: str, group: str, topic: str) -> dict[int, int]:
    """The newest commit of each partition of a topic, from the log of commits."""
    return {c.partition: c.offset for c in commits(servers) if (c.group, c.topic) == (group, topic)}


def ends(servers: str, topic: str) -> dict[int, int]:
    """Where each partition of a topic ends."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "checker", "log_level": 0})
    try:
        numbers = consumer.list_topics(topic, timeout=READ_S).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=READ_S)[1]
            for number in sorted(numbers)
        }
    finally:
        consumer.close()
