"""The loop of Assigners: one is in charge, dead workers are fenced, and nothing that an earlier one sent counts."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kafkakit.core.errors import ConflictError, InputError, TryLaterError
from kafkakit.core.lease import Holder, Life
from kafkakit.streams.assigner.act.leader import AssignerLoop, AssignerOptions, AssignerReader
from kafkakit.streams.assigner.standing import DRAINS_FOLDER
from kafkakit.streams.client.api import WorkerDocument, grant_path, worker_path
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.rigs.assigner import moved, route, worker
from tests.rigs.assigner_loop import Papers, assigner


class Stage:
    """A store, a clock, Assigners and workers that beat with each tick."""

    def __init__(self, closing: ExitStack) -> None:
        self.store, self.clock = FakeControlStore(), FakeClock()
        self.papers = Papers(self.store)
        self.workers: dict[str, WorkerDocument] = {}
        self.silent: set[str] = set()
        self.said: list[str] = []
        self._closing = closing
        self.papers.put_route(route(12))

    def loop(self, name: str = "one", **options: Any) -> AssignerLoop:
        made = assigner(self.store, self.clock, name, say=self.said.append, **options)
        self._closing.callback(made.close)
        return made

    def add(self, *slots: str) -> None:
        for slot in slots:
            self.workers[slot] = worker(slot)
            self.papers.put_worker(slot, self.workers[slot])

    def tick(self, *loops: AssignerLoop, times: int = 1, seconds: float = 0.2) -> None:
        for _ in range(times):
            self.clock.advance(seconds)
            for slot in self.workers:
                if slot not in self.silent and self.store.get(worker_path(slot)) is not None:
                    self.workers[slot] = self.papers.beat(slot, self.workers[slot])
            for loop in loops:
                loop.tick()

    def counts(self) -> dict[str, int]:
        return {slot: self.papers.count(slot) for slot in self.workers}


@pytest.fixture
def stage() -> Iterator[Stage]:
    with ExitStack() as closing:
        found = Stage(closing)
        yield found
        found.store.away = False


def test_workers_get_their_shares(stage: Stage) -> None:
    loop = stage.loop()
    stage.add("a", "b", "c")
    stage.tick(loop, times=3)
    assert stage.counts() == {"a": 4, "b": 4, "c": 4}
    standing = AssignerReader(stage.store).standing()
    assert standing is not None
    assert (standing.workers, standing.partitions, standing.token) == (3, 12, 1)


def test_a_silent_worker_is_fenced_after_its_time_and_its_partitions_go_to_others(stage: Stage) -> None:
    loop = stage.loop()
    stage.add("a", "b", "c")
    stage.tick(loop, times=3)
    stage.silent.add("b")
    began_s = stage.clock.monotonic()
    while stage.papers.count("a") + stage.papers.count("c") < 12:
        stage.tick(loop)
        assert stage.clock.monotonic() < began_s + 2
    assert stage.clock.monotonic() - began_s >= 1.5
    assert stage.store.get(worker_path("b")) is None
    assert stage.store.get(grant_path("b")) is None


def test_a_worker_whose_process_is_gone_is_replaced_at_once(stage: Stage) -> None:
    gone: list[str] = []

    def life_of(holder: Holder) -> Life:
        return Life.GONE if gone and holder.command == "gone" else Life.UNKNOWN

    loop = stage.loop(life_of=life_of)
    stage.add("a", "b")
    stage.workers["b"] = worker("b")
    stage.tick(loop, times=3)
    from dataclasses import replace

    stage.workers["b"] = replace(stage.workers["b"], holder=Holder(host="h", user="u", command="gone", pid=2))
    stage.tick(loop)
    stage.silent.add("b")
    gone.append("b")
    stage.tick(loop)
    assert stage.papers.count("a") == 12


def test_a_worker_that_writes_just_when_it_is_taken_for_dead_lives(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    stage.silent.add("b")
    delete = stage.store.delete

    def late(path: str, expected: int) -> None:
        if path == worker_path("b"):
            stage.workers["b"] = stage.papers.beat("b", stage.workers["b"])
        delete(path, expected)

    monkeypatch.setattr(stage.store, "delete", late)
    stage.tick(loop, times=9)
    assert stage.counts() == {"a": 6, "b": 6}


def test_a_worker_that_ended_in_order_is_replaced_at_once(stage: Stage) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    del stage.workers["b"]
    stage.papers.remove_worker("b")
    stage.tick(loop)
    assert stage.papers.count("a") == 12


def test_another_assigner_waits_and_takes_over(stage: Stage) -> None:
    one, two = stage.loop("one"), stage.loop("two")
    stage.add("a", "b")
    stage.tick(one, two, times=5)
    before = stage.counts()
    stage.tick(two, times=10)
    assert AssignerReader(stage.store).lease().token == 1  # type: ignore[union-attr]
    stage.tick(two, times=10)
    assert AssignerReader(stage.store).lease().token == 2  # type: ignore[union-attr]
    assert stage.counts() == before
    grants = AssignerReader(stage.store).grants()
    assert {each.token for each in grants.values()} == {2}
    # The first one comes back: it neither writes nor takes the lease from the second one.
    stage.tick(one, two, times=5)
    assert {each.token for each in AssignerReader(stage.store).grants().values()} == {2}


def test_what_an_earlier_assigner_still_sends_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = stage.loop("one"), stage.loop("two")
    stage.add("a", "b")
    stage.tick(one, times=3)
    sent: list[tuple[str, bytes, int | None]] = []
    cas = stage.store.cas

    def hangs(path: str, value: bytes, expected: int | None) -> int:
        if path.startswith("assigner/grants"):
            sent.append((path, value, expected))
            raise TryLaterError("no answer")
        return cas(path, value, expected)

    monkeypatch.setattr(stage.store, "cas", hangs)
    stage.add("c")
    stage.papers.put_route(moved(route(12), "b", 6))
    stage.tick(one, times=60)
    monkeypatch.setattr(stage.store, "cas", cas)
    assert sent
    stage.clock.advance(10)
    stage.tick(two, times=18)
    assert sum(stage.counts().values()) == 18
    for path, value, expected in sent:
        with pytest.raises(ConflictError):
            cas(path, value, expected)
    assert {each.token for each in AssignerReader(stage.store).grants().values()} == {2}


def test_a_store_that_is_away_changes_nothing_and_its_answers_may_be_lost(stage: Stage) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    before = stage.counts()
    stage.store.away = True
    for _ in range(30):
        stage.clock.advance(0.2)
        assert loop.tick() is None
    stage.store.away = False
    # Workers could not write either: the first look finds what was there before, and no worker dead.
    loop.tick()
    assert set(AssignerReader(stage.store).workers()) == {"a", "b"}
    stage.tick(loop, times=3)
    assert stage.counts() == before
    stage.add("c")
    stage.papers.put_route(moved(route(12), "b", 6))
    stage.store.lose_answers = 3
    for _ in range(12):
        stage.clock.advance(0.2)
        loop.tick()
        stage.store.lose_answers = 0
        stage.tick()
    assert sum(stage.counts().values()) == 18


def test_a_drained_worker_gives_all_to_others_and_its_request_ends_with_it(stage: Stage) -> None:
    loop = stage.loop()
    stage.add("a", "b")
    stage.tick(loop, times=3)
    stage.store.cas(f"{DRAINS_FOLDER}/id-b", b"me", None)
    stage.tick(loop, times=3)
    assert stage.counts() == {"a": 12, "b": 0}
    del stage.workers["b"]
    stage.papers.remove_worker("b")
    stage.tick(loop)
    assert stage.store.children(DRAINS_FOLDER) == ()


def test_a_new_worker_gets_its_share_after_a_quiet_time(stage: Stage) -> None:
    loop = stage.loop(options=AssignerOptions(balance_after_s=5))
    stage.add("a")
    stage.tick(loop, times=3)
    stage.add("b")
    stage.tick(loop, times=20)
    assert stage.counts() == {"a": 12, "b": 0}
    stage.tick(loop, times=60)
    assert 4 <= stage.papers.count("b") <= 7


def test_a_document_of_a_newer_version_ends_it(stage: Stage) -> None:
    loop = stage.loop()
    stage.store.cas(worker_path("x"), b'{"kafkakit":{"kind":"stream-worker","schema":9}}', None)
    with pytest.raises(InputError, match="newer"):
        stage.tick(loop)


def test_a_route_that_a_worker_knows_is_read_at_once(stage: Stage) -> None:
    loop = stage.loop()
    stage.add("a")
    stage.tick(loop, times=3)
    stage.papers.put_route(moved(route(12), "b", 3))
    stage.tick(loop, times=3)
    assert stage.counts() == {"a": 15}
