"""Parts of the planning of log dirs: rooms, destinations, words, the report."""

from fractions import Fraction
from functools import partial

import pytest

from kafkakit.core.model import Broker, ClusterSnapshot, LogDir, Partition, TopicPartition
from kafkakit.core.selection import BrokerList
from kafkakit.placement.broker_disks import DirStorage, broker_disks
from kafkakit.placement.log_dirs_balance import DirRules
from kafkakit.placement.problem import PlannedPartition
from kafkakit.placement.watch import SilentWatch
from kafkakit.topicmappr.decide.dirs import DirPlan, plan_dirs
from kafkakit.topicmappr.decide.rebuild import decide_rebuild
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.topicmappr.report.balance import dirs_data, dirs_section
from tests.clusters.shapes import make_snapshot

GIB = 1 << 30
ALL = DirRules(max_use=Fraction(1))


def world(
    sizes: list[int],
    lists: list[tuple[int, ...]],
    dirs: dict[int, dict[str, LogDir]],
    where: dict[tuple[int, int], str],
) -> ClusterSnapshot:
    """Partitions of topic t with copies in the dirs `where` says, by (partition, broker)."""
    partitions = tuple(
        Partition(
            partition=n,
            replicas=row,
            isr=row,
            leader=row[0],
            replica_bytes=dict.fromkeys(row, size),
            replica_dirs={b: where[n, b] for b in row if (n, b) in where},
        )
        for n, (size, row) in enumerate(zip(sizes, lists, strict=True))
    )
    return make_snapshot((Broker(id=b, log_dirs=tuple(own.values())) for b, own in dirs.items()), {"t": partitions})


def disk(path: str, total: int | None, usable: int | None, **more: object) -> LogDir:
    return LogDir(path=path, total_bytes=total, usable_bytes=usable, **more)  # type: ignore[arg-type]


def shelf(*dirs: LogDir) -> dict[str, LogDir]:
    return {d.path: d for d in dirs}


ONE = shelf(disk("/x", 10_000, 10_000))


def plan(snapshot: ClusterSnapshot, after: list[tuple[int, ...]], rules: DirRules = ALL) -> DirPlan:
    partitions = [
        PlannedPartition(TopicPartition("t", p.partition), p.replicas, len(p.replicas), p.known_bytes)
        for p in snapshot.topics[0].partitions
    ]
    return plan_dirs(snapshot, partitions, after, broker_disks(snapshot).log_dirs, rules)


def arriving(sizes: list[int], *dirs: LogDir, rules: DirRules = ALL) -> DirPlan:
    """Partitions on broker 1 that all come to broker 2 with these dirs."""
    snapshot = world(sizes, [(1,)] * len(sizes), {1: ONE, 2: shelf(*dirs)}, {})
    return plan(snapshot, [(2,)] * len(sizes), rules)


def test_the_largest_copies_go_first_each_to_the_dir_that_it_fills_least() -> None:
    found = arriving([10, 20, 40], disk("/a", 100, 100), disk("/b", 50, 50))
    assert [found.dirs[n][2] for n in range(3)] == ["/a", "/b", "/a"]
    assert [(d.path, d.used_before_bytes, d.used_after_bytes) for d in found.table] == [("/a", 0, 50), ("/b", 0, 20)]
    assert (found.notes, found.warnings) == ((), ())


def test_no_copy_goes_to_a_closed_dir_or_above_a_ceiling() -> None:
    found = arriving(
        [30, 30, 30],
        disk("/broken", None, None, error="KafkaStorageError"),
        disk("/cordoned", 1000, 1000, cordoned=True),
        disk("/small", 40, 40),
        disk("/tight", 1000, 170),
        rules=DirRules(),
    )
    assert sorted(chosen[2] for chosen in found.dirs.values()) == ["/small", "/tight", "/tight"]
    assert [d.is_open for d in found.table] == [False, False, True, True]


def test_copies_that_simple_ways_leave_over_are_packed() -> None:
    # Largest first fills /a with 6, and then neither dir has room for both fives.
    found = arriving([6, 5, 5], disk("/a", 100, 10), disk("/b", 30, 6))
    assert sorted(chosen[2] for chosen in found.dirs.values()) == ["/a", "/a", "/b"]
    assert found.warnings == ()


def test_a_copy_without_room_gets_no_dir_and_a_warning() -> None:
    found = arriving([60, 10], disk("/a", 100, 50), disk("/b", 100, 40))
    assert found.dirs == {1: {2: "/a"}}
    assert found.warnings == (
        "broker 2: no log dir has space for t-0 (60 B) (the most is 50 B); no dir is named for them, the broker "
        "will choose one",
    )


def test_room_that_others_leave_is_used_only_when_needed_and_said() -> None:
    dirs = {1: shelf(disk("/x", 99, 90)), 2: shelf(disk("/a", 100, 10), disk("/b", 100, 20))}
    snapshot = world([50, 40], [(2,), (1,)], dirs, {(0, 2): "/a", (1, 1): "/x"})
    found = plan(snapshot, [(1,), (2,)])
    assert found.dirs == {1: {2: "/a"}}
    assert found.notes == (
        "broker 2: new copies fit only once others have left: /a gets 40 B and has space for 10 B now; apply in small "
        "batches",
    )


def test_brokers_with_one_dir_or_unknown_sizes_name_none() -> None:
    assert arriving([5], disk("/a", 10, 10)) == DirPlan()
    found = arriving([5], disk("/a", None, None), disk("/b", None, None))
    assert found.dirs == {}
    assert found.notes == ("broker 2: the size of log dirs is not known, so none is named for new copies",)


def test_head_room_is_split_over_dirs_by_capacity() -> None:
    rules = DirRules(max_use=Fraction(9, 10), head_room=30)
    small, large = (DirStorage(path=p, total_bytes=n, usable_bytes=n) for p, n in (("/a", 100), ("/b", 200)))
    assert [rules.room(d, 300) for d in (small, large)] == [80, 160]
    assert rules.room(DirStorage(path="/c", total_bytes=100, usable_bytes=5), 300) == 0


def crowded(*dirs: LogDir, sizes: list[int], band: str = "1/10") -> DirPlan:
    """Everything in the first dir of broker 1."""
    snapshot = world(sizes, [(1,)] * len(sizes), {1: shelf(*dirs)}, {(n, 1): dirs[0].path for n in range(len(sizes))})
    return plan(snapshot, [(1,)] * len(sizes), DirRules(max_use=Fraction(1), band=Fraction(band)))


def test_levelling_is_by_capacity_and_its_bound_is_met() -> None:
    found = crowded(disk("/a", 300, 100), disk("/b", 600, 600), sizes=[30, 30, 30])
    assert [(d.path, d.used_after_bytes) for d in found.table] == [("/a", 30), ("/b", 60)]
    assert (found.moved_bytes, found.lower_bound) == (60, 60)
    assert found.notes == ("inside brokers: 2 copies change log dirs, 60 B, which is the least",)


def test_a_band_that_cannot_be_had_names_broker_dir_and_reason() -> None:
    found = crowded(disk("/a", 300, 100), disk("/b", 300, 300), sizes=[90, 10])
    (warning,) = found.warnings
    assert warning.startswith("broker 1: its log dirs cannot be brought within 10% of their shares, the nearest found")
    assert "/a ends with 90 B, above its share of 50 B" in warning
    assert "copies cannot be split, and the largest that may move has 90 B" in warning
    assert found.moved_bytes == 10


@pytest.mark.parametrize(
    ("dirs", "words"),
    [
        ((disk("/a", 300, 100), disk("/b", 300, 10)), "/b may hold no more than 10 B of these files"),
        ((disk("/a", 300, 100), disk("/b", 300, 0)), "/b may hold no more than 0 B of these files"),
    ],
)
def test_a_full_disk_is_named_as_the_reason(dirs: tuple[LogDir, ...], words: str) -> None:
    assert words in crowded(*dirs, sizes=[10] * 10).warnings[0]


def test_offline_dirs_warn_and_cordoned_ones_are_noted() -> None:
    found = crowded(
        disk("/a", 300, 100),
        disk("/b", 300, 300),
        disk("/c", 300, 300, cordoned=True),
        disk("/d", None, None, error="KafkaStorageError"),
        sizes=[10] * 10,
    )
    assert found.warnings == ("broker 1: log dir /d is offline, nothing can be moved out of it",)
    assert found.notes[-1] == "broker 1: log dir /c is cordoned, it is left out of the balance"
    assert {m.target_dir for m in found.dir_moves} == {"/b"}


def test_levelling_uses_arrivals_before_it_moves_anything() -> None:
    dirs = {1: ONE, 2: shelf(disk("/a", 300, 200), disk("/b", 300, 300))}
    where = {(n, 2): "/a" for n in range(3)} | {(3, 1): "/x"}
    snapshot = world([20, 20, 20, 60], [(2,), (2,), (2,), (1,)], dirs, where)
    found = plan(snapshot, [(2,)] * 4, DirRules(max_use=Fraction(1), band=Fraction(0)))
    assert found.dirs == {3: {2: "/b"}}
    assert found.dir_moves == ()


def test_stopping_leaves_destinations_and_no_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = world(
        [10, 10], [(1,), (1,)], {1: shelf(disk("/a", 99, 79), disk("/b", 99, 99))}, {(0, 1): "/a", (1, 1): "/a"}
    )
    partitions = [PlannedPartition(TopicPartition("t", n), (1,), 1, 10) for n in range(2)]
    rules = DirRules(band=Fraction(1, 10))
    for stopped, moves in ((True, 0), (False, 1)):
        watch = SilentWatch()
        monkeypatch.setattr(watch, "stopped", partial(bool, stopped))
        found = plan_dirs(snapshot, partitions, [(1,), (1,)], broker_disks(snapshot).log_dirs, rules, watch=watch)
        assert len(found.dir_moves) == moves


def test_a_rebuild_names_dirs_and_shows_them() -> None:
    dirs = {1: ONE, 2: shelf(disk("/a", 8 * GIB, 6 * GIB), disk("/b", 8 * GIB, 8 * GIB))}
    snapshot = world([GIB, 2 * GIB], [(1,), (2,)], dirs, {(0, 1): "/x", (1, 2): "/a"})
    request = RebuildRequest(brokers=BrokerList(ids=(2,)), topics=("t",), words={})
    made = decide_rebuild(snapshot, request).plan
    assert [dict(m.dirs) for m in made.moves] == [{2: "/b"}]
    assert list(dirs_section(made).lines()) == [
        "",
        "Log dirs:",
        "  Broker 2",
        "    /a: 2 GiB (25%) -> 2 GiB (25%)",
        "    /b: 0 B (0%) -> 1 GiB (12.5%), 1 new copy",
        "  inside brokers: 0 copies, 0 B",
    ]
    assert dirs_data(made)["destinations"] == [{"topic": "t", "partition": 0, "broker": 2, "dir": "/b"}]


def test_nothing_about_dirs_is_shown_where_nothing_happens_to_them() -> None:
    snapshot = world([5], [(1,)], {1: ONE, 2: ONE}, {(0, 1): "/x"})
    made = decide_rebuild(snapshot, RebuildRequest(brokers=BrokerList(ids=(2,)), topics=("t",), words={})).plan
    assert list(dirs_section(made).lines()) == []


def test_what_may_not_be_moved_is_named_as_the_reason() -> None:
    snapshot = world(
        [60, 20], [(1,), (1,)], {1: shelf(disk("/a", 300, 220), disk("/b", 300, 300))}, {(0, 1): "/a", (1, 1): "/a"}
    )
    partitions = [PlannedPartition(TopicPartition("t", n), (1,), 1, size) for n, size in enumerate((60, 20))]
    rules = DirRules(max_use=Fraction(1), band=Fraction(1, 10))
    log_dirs = broker_disks(snapshot).log_dirs
    found = plan_dirs(snapshot, partitions, [(1,), (1,)], log_dirs, rules, pinned=[TopicPartition("t", 0)])
    assert "60 B in /a may not be moved" in found.warnings[0]
    assert [m.partition for m in found.dir_moves] == [1]
