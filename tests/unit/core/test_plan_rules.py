import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from kafkakit.core.errors import ExitCode, InputError
from kafkakit.core.model import PartitionAssignment, PartitionMap
from kafkakit.core.plan import DirMove, Plan, PlanBroker, PlanDir, ScopeEntry, fingerprint_of, identity_of
from kafkakit.core.plan_rules import check_plan
from tests.clusters.plans import make_plan, plan_of
from tests.fakes.admin import FakeCluster


def good_plan() -> Plan:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=1000)
    return make_plan(cluster, {("t", 0): (3, 2)})


def resealed(plan: Plan, **changes: object) -> Plan:
    """The plan with changes and a fitting fingerprint, as a careful forger would make it."""
    changed = replace(plan, **changes)  # type: ignore[arg-type]
    return replace(changed, fingerprint=fingerprint_of(changed.cluster_id, changed.brokers, changed.scope))


def moved(plan: Plan, **changes: object) -> Plan:
    """The plan with its one move changed, and the maps made to fit."""
    move = replace(plan.moves[0], **changes)  # type: ignore[arg-type]
    return plan_of(plan.cluster_id, plan.brokers, plan.scope, (move,))


def scoped(plan: Plan, entry: ScopeEntry) -> Plan:
    return resealed(plan, scope=(*plan.scope, entry))


def mapped(plan: Plan, *entries: tuple[str, int, tuple[int, ...]]) -> PartitionMap:
    return PartitionMap(partitions=tuple(PartitionAssignment(topic=t, partition=p, replicas=r) for t, p, r in entries))


def inside(plan: Plan, **changes: object) -> Plan:
    """The plan with one move inside a broker, changed."""
    move = DirMove(topic="t", partition=1, broker=2, source_dir="/a", target_dir="/b", size_bytes=1000)
    return replace(plan, dir_moves=(replace(move, **changes),))  # type: ignore[arg-type]


def shelved(plan: Plan, **changes: object) -> Plan:
    """The plan with one log dir in its table, changed."""
    row = PlanDir(broker=2, path="/a", capacity_bytes=9, used_before_bytes=1, used_after_bytes=2)
    return replace(plan, dirs=(replace(row, **changes),))  # type: ignore[arg-type]


WRONG: list[tuple[str, Callable[[Plan], Plan]]] = [
    ("fingerprint does not match", lambda p: replace(p, fingerprint="sha256:00")),
    ("is not a Kafka cluster id", lambda p: resealed(p, cluster_id="../../etc")),
    ("is not a Kafka cluster id", lambda p: resealed(p, cluster_id="")),
    ("brokers: an id is listed twice", lambda p: resealed(p, brokers=(*p.brokers, PlanBroker(id=1)))),
    ("the rack of broker 1 is not a plain name", lambda p: resealed(p, brokers=(PlanBroker(id=1, rack="a\x1b[2J"),))),
    ("the rack of broker 1 is not a plain name", lambda p: resealed(p, brokers=(PlanBroker(id=1, rack="a" * 250),))),
    ("brokers: id -1 is out of range", lambda p: resealed(p, brokers=(PlanBroker(id=-1),))),
    ("not a Kafka topic name", lambda p: scoped(p, ScopeEntry(topic="../x", partition=0, replicas=(1,)))),
    ("not a Kafka topic name", lambda p: scoped(p, ScopeEntry(topic="..", partition=0, replicas=(1,)))),
    ("partition number out of range", lambda p: scoped(p, ScopeEntry(topic="u", partition=-1, replicas=(1,)))),
    ("partition number out of range", lambda p: scoped(p, ScopeEntry(topic="u", partition=2**31, replicas=(1,)))),
    ("the replica list is empty", lambda p: scoped(p, ScopeEntry(topic="u", partition=0, replicas=()))),
    ("a broker is listed twice", lambda p: scoped(p, ScopeEntry(topic="u", partition=0, replicas=(1, 1)))),
    ("broker id -1", lambda p: scoped(p, ScopeEntry(topic="u", partition=0, replicas=(-1,)))),
    ("more than 1000", lambda p: scoped(p, ScopeEntry(topic="u", partition=0, replicas=tuple(range(2000))))),
    ("scope: 't' partition 0 is listed twice", lambda p: scoped(p, p.scope[0])),
    ("is not in the plan's scope", lambda p: moved(p, partition=7)),
    ("differs from the scope's", lambda p: moved(p, before=(1, 3))),
    ("topic id differs", lambda p: moved(p, topic_id="forged")),
    ("before and after are the same", lambda p: moved(p, after=(1, 2))),
    ("after: a broker is listed twice", lambda p: moved(p, after=(3, 3))),
    ("not among the plan's brokers", lambda p: moved(p, after=(9, 2))),
    ("size -1 is out of range", lambda p: moved(p, size_bytes=-1)),
    ("moves: 't' partition 0: is listed twice", lambda p: replace(p, moves=p.moves * 2)),
    ("reassignment: 't' partition 0 is missing", lambda p: replace(p, reassignment=mapped(p))),
    ("reassignment: 't' partition 0 has [2,3]", lambda p: replace(p, reassignment=mapped(p, ("t", 0, (2, 3))))),
    ("reassignment: 'x' partition 0 is not", lambda p: replace(p, reassignment=mapped(p, ("x", 0, (2, 3))))),
    ("reassignment: version 2", lambda p: replace(p, reassignment=replace(p.reassignment, version=2))),
    ("rollback: 't' partition 0 has [3,2]", lambda p: replace(p, rollback=p.reassignment)),
    (
        "rollback: 't' partition 0 is listed twice",
        lambda p: replace(p, rollback=mapped(p, ("t", 0, (1, 2)), ("t", 0, (1, 2)))),
    ),
    ("dirs: no copy comes to broker 2", lambda p: moved(p, dirs={2: "/a"})),
    ("dirs: '' is not the path", lambda p: moved(p, dirs={3: ""})),
    ("is not the path of a log dir", lambda p: moved(p, dirs={3: "/a\x1b[2J"})),
    ("dir_moves: 'x' partition 1: is not in the plan's scope", lambda p: inside(p, topic="x")),
    ("dir_moves: 't' partition 1: broker 3 does not hold it", lambda p: inside(p, broker=3)),
    ("dir_moves: 't' partition 0: broker 1 does not hold it", lambda p: inside(p, partition=0, broker=1)),
    ("source and target dir are the same", lambda p: inside(p, target_dir="/a")),
    ("is not the path of a log dir", lambda p: inside(p, target_dir="/" + "x" * 5000)),
    ("dir_moves: 't' partition 1: size -1", lambda p: inside(p, size_bytes=-1)),
    ("is listed twice for broker 2", lambda p: replace(p, dir_moves=inside(p).dir_moves * 2)),
    ("dirs: broker -1 '/a': broker id out of range", lambda p: shelved(p, broker=-1)),
    ("dirs: broker 2 '/a': is listed twice", lambda p: replace(p, dirs=shelved(p).dirs * 2)),
    ("dirs: broker 2 '/a': size -5", lambda p: shelved(p, used_after_bytes=-5)),
    ("is not the path of a log dir", lambda p: shelved(p, path="a\nb")),
    ("certificate", lambda p: replace(p, certificate=replace(p.certificate, lower_bound=9))),
]


def test_a_good_plan_passes_also_with_unchanged_partitions_in_its_maps() -> None:
    plan = good_plan()
    check_plan(plan, "p.json")
    whole = mapped(plan, ("t", 0, (3, 2)), ("t", 1, (2, 1)))
    check_plan(replace(plan, reassignment=whole), "p.json")


@pytest.mark.parametrize(("problem", "forge"), WRONG)
def test_a_plan_that_makes_no_sense_is_refused(problem: str, forge: Callable[[Plan], Plan]) -> None:
    with pytest.raises(InputError) as caught:
        check_plan(forge(good_plan()), "p.json")
    assert problem in caught.value.message
    assert caught.value.message.startswith("p.json: ")
    assert "\n" not in caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE


def test_the_fingerprint_is_the_hash_of_compact_json_rows_in_sorted_order() -> None:
    scope = (
        ScopeEntry(topic="u", partition=0, replicas=(1,), topic_id="zweiß"),
        ScopeEntry(topic="t", partition=10, replicas=(3, 1, 2), topic_id="one"),
        ScopeEntry(topic="t", partition=9, replicas=(), topic_id="one"),
        ScopeEntry(topic="t", partition=11, replicas=(4,)),
        ScopeEntry(topic='q"\\', partition=0, replicas=(2, 1)),
    )
    rows: list[object] = [["c", [[1, ""], [2, "r"]]]]
    rows += [[e.topic, e.topic_id or "", e.partition, list(e.replicas)] for e in sorted(scope, key=order)]
    text = "".join(json.dumps(row, separators=(",", ":")) for row in rows)
    expected = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert fingerprint_of("c", [PlanBroker(id=2, rack="r"), PlanBroker(id=1)], scope) == expected
    assert fingerprint_of("c", [PlanBroker(id=1), PlanBroker(id=2, rack="r")], scope[::-1]) == expected


def order(entry: ScopeEntry) -> tuple[str, int]:
    return entry.topic, entry.partition


def test_log_dirs_in_a_plan_pass_and_are_part_of_its_identity() -> None:
    plan = good_plan()
    named = replace(plan, moves=(replace(plan.moves[0], dirs={3: "/data 1/ä"}),))
    for other in (named, inside(plan), shelved(plan)):
        check_plan(other, "plan")
    assert len({identity_of(p) for p in (plan, named, inside(plan), inside(plan, target_dir="/c"))}) == 4
