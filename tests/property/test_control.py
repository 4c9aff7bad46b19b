"""Properties of leases and of the Kafka log as a store: whatever the order, the delays and the compaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.adapters.control_kafka import NEVER, LogView, encode_change, encode_confirmation
from kafkakit.core.lease import (
    Holder,
    LeaseGrant,
    LeaseRecord,
    LeaseWatch,
    Life,
    OwnLease,
    VersionedValue,
    decide,
    watch,
)

PATH = "a/b"


@dataclass(frozen=True)
class Entry:
    offset: int
    key: bytes
    value: bytes


def view_of(entries: Sequence[Entry]) -> LogView:
    view = LogView("log")
    for entry in entries:
        view.add(entry.offset, entry.key, entry.value)
    return view


def compacted(entries: Sequence[Entry], kept: Sequence[bool], upto: int) -> list[Entry]:
    """The log after the cleaner: of the first `upto` records those that a later one of them hides may be gone
    (`kept` says which stay), and so may tombstones that hide nothing any more."""
    last = {entry.key: entry.offset for entry in entries[:upto]}
    found = []
    for number, entry in enumerate(entries):
        hidden = number < upto and last[entry.key] != entry.offset
        if not hidden or kept[number % len(kept)]:
            found.append(entry)
    present: dict[bytes, int] = {}
    for entry in found:
        present[entry.key] = present.get(entry.key, 0) + 1
    ended = {e.key for e in found if not e.value and present[e.key] == 1 and not kept[(e.offset + 1) % len(kept)]}
    cleaned = {entry.key for entry in entries[:upto]}
    return [e for e in found if e.key not in ended or e.key not in cleaned or e.value]


class Plain:
    """The rule without any cleverness: a change wins if it expects the version that is there when it arrives."""

    def __init__(self) -> None:
        self.version, self.value = NEVER, b""
        self.all_versions = [NEVER]

    def apply(self, offset: int, parent: int, value: bytes) -> bool:
        if parent != self.version:
            return False
        self.version, self.value = offset, value
        self.all_versions.append(offset)
        return True


# What a writer does next: propose (on the present version, an old one or a guess), confirm, tidy, or crash in between.
steps = st.lists(
    st.tuples(
        st.sampled_from(["now", "now", "now", "stale", "guess", "delete", "other", "confirm", "tidy"]),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=300)
@given(steps, st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 60), st.integers(0, 60))
def test_every_reader_sees_the_same_chain_compacted_or_not(
    script: list[tuple[str, int]], kept: list[bool], upto: int, again: int
) -> None:
    log: list[Entry] = []
    plain, winners = Plain(), list[tuple[int, bytes]]()
    for number, (what, pick) in enumerate(script):
        key, offset = f"change/w/{number}".encode(), len(log)
        # Whoever writes has read the log, perhaps a compacted one, up to here.
        reader = view_of(compacted(log, kept, min(upto, len(log))))
        assert reader.head(PATH) == plain.version
        if what == "confirm":
            for version, value in winners[pick % 3 :: 3]:
                change = next((e for e in log if e.offset == version), None)
                assert change is not None
                full = view_of([change]).change(PATH, version)
                assert full.value == value
                log.append(Entry(len(log), full.key, encode_confirmation(full)))
        elif what == "tidy":
            log += [Entry(len(log) + n, k, b"") for n, k in enumerate(reader.ended(PATH)[: pick + 1])]
        elif what == "other":
            log.append(Entry(offset, key, encode_change("other", NEVER, b"o")))
        else:
            choices = {
                "now": plain.version,
                "delete": plain.version,
                "stale": plain.all_versions[pick % len(plain.all_versions)],
                "guess": offset + pick,
            }
            value = b"" if what == "delete" else b"%d\nx" % number
            log.append(Entry(offset, key, encode_change(PATH, choices[what], value)))
            won = plain.apply(offset, choices[what], value)
            assert (view_of(log).head(PATH) == offset) == won
            if won:
                winners.append((offset, value))
    whole = view_of(log).document(PATH)
    expected = VersionedValue(value=plain.value, version=plain.version) if plain.value else None
    assert whole == expected
    once = compacted(log, kept, upto)
    for entries in (once, compacted(once, kept[::-1], again), compacted(log, [False], len(log))):
        assert view_of(entries).document(PATH) == expected
        assert view_of(entries).head(PATH) == plain.version


def test_a_clean_log_is_small() -> None:
    """With every winner confirmed and everything ended, two records a path are left, however often it changed."""
    log: list[Entry] = []
    for number in range(50):
        view = view_of(log)
        key = f"change/w/{number}".encode()
        log.append(Entry(len(log), key, encode_change(PATH, view.head(PATH), b"v")))
        view = view_of(log)
        log.append(Entry(len(log), key, encode_confirmation(view.change(PATH, view.head(PATH)))))
        log += [Entry(len(log) + n, k, b"") for n, k in enumerate(view.ended(PATH))]
    left = [e for e in compacted(log, [False], len(log)) if e.value]
    assert len(left) == 2


@dataclass
class Actor:
    """One host's process: its own clocks, what it watches, what it holds, and a write on its way."""

    name: str
    start_s: float
    rate: float
    life: Life
    first: LeaseWatch | None = None
    watching: LeaseWatch | None = None
    tenure: OwnLease | None = None
    sent: tuple[LeaseRecord, int | None, float, datetime] | None = None

    def clock_s(self, real_s: float) -> float:
        return self.start_s + real_s * self.rate

    def now(self, real_s: float) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.start_s * 7 + real_s * self.rate)


class World:
    """One document, three processes on three hosts whose clocks differ and run up to 5 % fast or slow."""

    def __init__(self, rates: Sequence[float]) -> None:
        self.real_s = 0.0
        self.document: VersionedValue | None = None
        self.record: LeaseRecord | None = None
        lives = (Life.UNKNOWN, Life.ALIVE, Life.UNKNOWN)
        self.actors = [Actor(f"u{n}", 1000.0 * n, rate, lives[n]) for n, rate in enumerate(rates)]
        self.acted: list[int] = []
        self.taken: list[int] = []

    def look(self, actor: Actor) -> None:
        """Read, decide, and send a write if the lease may be taken; it arrives later."""
        if actor.tenure is not None or actor.sent is not None:
            return
        now_s, now, found = actor.clock_s(self.real_s), actor.now(self.real_s), self.document
        looked = None if found is None else watch(actor.watching, found, ttl_s=15, asked_s=now_s, now_s=now_s)
        actor.watching, actor.first = looked, actor.first or looked
        match decide(self.record, actor.watching, actor.first, now, actor.life):
            case LeaseGrant(token, expected):
                holder = Holder(host=actor.name, user="u", command="c", pid=1)
                record = LeaseRecord(token=token, beats=0, ttl_s=15, taken_at=now, renewed_at=now, holder=holder)
                actor.sent = (record, expected, now_s, now)
            case _:
                actor.first = actor.watching  # comes back later as if for the first time

    def renew(self, actor: Actor) -> None:
        if actor.tenure is not None and actor.sent is None:
            old, now = actor.tenure.record, actor.now(self.real_s)
            record = LeaseRecord(
                token=old.token, beats=old.beats + 1, ttl_s=15, taken_at=old.taken_at, renewed_at=now, holder=old.holder
            )
            actor.sent = (record, actor.tenure.version, actor.clock_s(self.real_s), now)

    def deliver(self, actor: Actor) -> None:
        """The write reaches the store, maybe long after it was sent."""
        if actor.sent is None:
            return
        record, expected, sent_s, sent_at = actor.sent
        actor.sent, actor.tenure = None, None
        if expected == (None if self.document is None else self.document.version):
            version = (expected or 0) + 1
            self.document, self.record = VersionedValue(value=b"x", version=version), record
            actor.tenure = OwnLease(record=record, version=version, sent_s=sent_s, sent_at=sent_at)
            if record.beats == 0:
                self.taken.append(record.token)

    def act(self, actor: Actor) -> None:
        """An effect, if the actor believes that it may."""
        tenure = actor.tenure
        if tenure is not None and tenure.is_held(actor.clock_s(self.real_s), actor.now(self.real_s)):
            self.acted.append(tenure.record.token)


moves = st.lists(
    st.tuples(
        st.sampled_from(["claim", "claim", "claim", "renew", "late claim", "late renewal", "arrives"]),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.5, 2.0, 3.5, 5.0, 7.0, 10.0, 12.0, 14.0]),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=300)
@given(moves, st.lists(st.sampled_from([0.95, 1.0, 1.05]), min_size=3, max_size=3))
def test_who_acts_has_the_highest_token_so_far(script: list[tuple[str, int, float]], rates: list[float]) -> None:
    world = World(rates)
    for what, number, seconds in [("claim", 0, 0.0), ("claim", 1, 0.0), *script]:
        world.real_s += seconds
        actor = world.actors[number]
        if what.endswith("claim"):
            world.look(actor)
        elif what.startswith(("renew", "late renew")):
            world.renew(actor)
        if not what.startswith("late"):
            world.deliver(actor)
        # Everybody who thinks that they may act does so at every moment, whoever came last first.
        for actor in sorted(world.actors, key=lambda a: -a.tenure.record.token if a.tenure else 0):
            world.act(actor)
    assert world.acted == sorted(world.acted)
    assert world.taken == sorted(set(world.taken))
