"""One look at moves between log dirs: what is done, under way, not begun, or cannot be done."""

from kafkakit.core.cluster_facts import BrokerLogDirs, LiveReplica
from kafkakit.core.model import LogDir, TopicPartition, TopicPartitionReplica
from kafkakit.execution.decide.plan_state import DirWork, look_at_dirs

SOURCE, TARGET = "/d/0", "/d/1"


def work(partition: int, broker: int = 1, *, target: str = TARGET, sent: tuple[str, ...] = ()) -> DirWork:
    replica = TopicPartitionReplica("t", partition, broker)
    return DirWork(replica=replica, source=SOURCE, target=target, size_bytes=100, sent=sent)


def broker(replicas: dict[int, tuple[str, int]], futures: dict[int, tuple[str, int]] | None = None) -> BrokerLogDirs:
    def copies(found: dict[int, tuple[str, int]]) -> dict[TopicPartition, LiveReplica]:
        return {TopicPartition("t", n): LiveReplica(log_dir=path, size_bytes=size) for n, (path, size) in found.items()}

    dirs = (LogDir(path=SOURCE), LogDir(path=TARGET), LogDir(path="/d/2", error="offline"), LogDir(path="/d/3"))
    return BrokerLogDirs(broker=1, log_dirs=dirs, replicas=copies(replicas), futures=copies(futures or {}))


def test_every_move_is_looked_at_whatever_comes_before_it() -> None:
    gone, dark, third, done, moving, idle = work(0, 2), work(1, target="/d/2"), work(2), work(3), work(4), work(5)
    dirs = {
        1: broker(
            {1: (SOURCE, 1), 2: ("/d/3", 2), 3: (TARGET, 30), 4: (SOURCE, 40), 5: (SOURCE, 50)}, {4: (TARGET, 15)}
        )
    }
    look = look_at_dirs([gone, dark, third, done, moving, idle], dirs)
    assert (look.done, look.moving, look.idle) == ((done,), (moving,), (idle,))
    assert list(look.lost) == [gone, dark, third]
    assert "broker 2" in look.lost[gone]
    assert "/d/2" in look.lost[dark]
    assert "/d/3" in look.lost[third]
    assert (look.copied_bytes, look.total_bytes) == (30 + 15, 30 + 40 + 50)


def test_a_future_copy_counts_for_no_more_than_the_copy_and_only_on_its_way_to_the_target() -> None:
    dirs = {1: broker({0: (SOURCE, 10), 1: (TARGET, 20)}, {0: (TARGET, 99), 1: (SOURCE, 5)})}
    look = look_at_dirs([work(0), work(1)], dirs)
    assert (look.moving, look.idle, look.done) == ((work(0),), (work(1),), ())
    assert (look.copied_bytes, look.total_bytes) == (10, 30)


def test_a_copy_that_our_run_took_to_a_third_dir_is_not_lost() -> None:
    dirs = {1: broker({0: ("/d/3", 10)})}
    ours = work(0, sent=("/d/3",))
    assert look_at_dirs([ours], dirs).idle == (ours,)
    assert list(look_at_dirs([work(0)], dirs).lost) == [work(0)]
