"""The exploration can fail: with a fault put into the machine it reports the invariant that the fault breaks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import ConflictError
from kafkakit.streams.failover.act import observing as observer
from kafkakit.streams.failover.act import observing as reading
from kafkakit.streams.failover.act import operations as planning
from kafkakit.streams.failover.act import run
from kafkakit.streams.failover.act import run as effects
from kafkakit.streams.failover.act.run import OperationJournals
from kafkakit.streams.failover.decide import plan as preconditions
from kafkakit.streams.failover.decide import steps
from kafkakit.streams.failover.decide import steps as quiescing
from kafkakit.streams.failover.decide import steps as route_edits
from kafkakit.streams.failover.decide.drain_proof import Item, MissingItem
from kafkakit.streams.failover.decide.plan import moves_of
from kafkakit.streams.model.route import SegmentState, encode_route, route_path
from kafkakit.streams.model.route_edits import route_lanes
from kafkakit.streams.routes.act.store import RouteStore
from tests.rigs.stream_model.explorer import Exploration
from tests.rigs.stream_model.process import Life
from tests.rigs.stream_model.scenarios import NARROW, SCENARIOS
from tests.rigs.stream_model.world import Scenario

CALM = Scenario(name="calm", faults=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is put in where, and the invariant that must be found broken."""

    name: str
    broken: str
    put: Callable[[pytest.MonkeyPatch], None]
    scenario: Scenario = CALM
    depth: int = 0


def with_event(*events: str, **more: Any) -> Scenario:
    return Scenario(**{"name": "+".join(events), "faults": (), "events": events, **more})


def constant(where: object, name: str, value: object) -> Callable[[pytest.MonkeyPatch], None]:
    """A function that always gives the same."""

    def planted(*_: object, **__: object) -> object:
        return value

    planted.__name__ = name  # methods are kept by their names
    return lambda patch: patch.setattr(where, name, planted)


def no_certificate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperationJournals, "write_certificate", lambda *_: None)
    patch.setattr(run.OperationRun, "_has_certificate", lambda _: True)


def route_without_comparison(patch: pytest.MonkeyPatch) -> None:
    def put(self: RouteStore, stream: str, change: Any, _: int | None) -> None:
        store: Any = self._store
        documents = getattr(store, "_inner", store).documents()
        while True:
            found = documents.get(route_path(stream))
            try:
                self._store.cas(route_path(stream), encode_route(change.route), found and found[0])
            except ConflictError:
                continue
            return

    patch.setattr(RouteStore, "_replace", put)
    patch.setattr(run, "require_same", lambda found, _: found)


def old_stays_active(patch: pytest.MonkeyPatch) -> None:
    real = route_lanes

    def both_active(route: Any, lanes: Any) -> Any:
        found = real(route, lanes)
        both = (
            replace(lane, segments=tuple(replace(each, state=SegmentState.ACTIVE) for each in lane.segments))
            for lane in found.lanes
        )
        return replace(found, lanes=tuple(both))

    patch.setattr(route_edits, "route_lanes", both_active)
    patch.setattr("kafkakit.streams.model.route._lane_problem", lambda _: None)


def delete_by_name(patch: pytest.MonkeyPatch) -> None:
    def delete(self: effects.Effects, segment: Any, *, only_empty: bool) -> str:
        self._open(segment.cluster).admin.delete_topic(segment.topic)
        return "deleted"

    patch.setattr(effects.Effects, "delete", delete)


def seed_blindly(patch: pytest.MonkeyPatch) -> None:
    def seed(self: effects.Effects, profile: str, offsets: Any) -> tuple[str, ...]:
        for group, places in offsets.items():
            wanted = {key: CommittedOffset(offset=offset) for key, offset in places.items()}
            self._open(profile).groups.commit(group, wanted)
        return ()

    def unseeded(groups: Any, facts: Any) -> Any:
        return [(name, {n: span.start for n, span in facts.whole_spans.items()}) for name in groups]

    patch.setattr(effects.Effects, "seed", seed)
    patch.setattr(steps, "_unseeded_groups", unseeded)


def carry_metadata(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(effects, "CommittedOffset", lambda offset: CommittedOffset(offset=offset, metadata="of another log"))


def more_partitions(patch: pytest.MonkeyPatch) -> None:
    real = moves_of
    patch.setattr(planning, "moves_of", lambda *words: tuple(replace(each, partitions=3) for each in real(*words)))


def nothing_missing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "missing_items", lambda *_: ())
    patch.setattr(run.OperationRun, "_has_certificate", lambda _: True)  # it would find the certificate unsound


def never_drained(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "missing_items", lambda *_: (MissingItem(item=Item.BACKLOG, text="something", records=1),))


def no_stable_ends(patch: pytest.MonkeyPatch) -> None:
    real: Any = reading._facts_of

    def facts_of(*words: Any, **more: Any) -> dict[str, Any]:
        return {
            topic: replace(
                facts,
                spans={n: replace(span, stable=span.end) for n, span in facts.spans.items()},
                effective={n: span.end for n, span in facts.spans.items()},
            )
            for topic, facts in real(*words, **more).items()
        }

    patch.setattr(reading, "_facts_of", facts_of)


def no_identity(patch: pytest.MonkeyPatch) -> None:
    for module in (reading, effects):
        patch.setattr(module, "segment_problem", lambda *_: "")


FAULTS = (
    Fault(name="the lease is not asked for", broken="I1", put=constant(Life, "require_held", None),
          scenario=with_event("lose_lease"), depth=1),
    Fault(name="the route is written without comparison", broken="I2", put=route_without_comparison,
          scenario=SCENARIOS["zombies"], depth=1),
    Fault(name="two segments are active", broken="I3", put=old_stays_active),
    Fault(name="groups get no offsets", broken="I4", put=constant(steps, "_unseeded_groups", ())),
    Fault(name="offsets are written over", broken="I4", put=seed_blindly, scenario=with_event("own_offset"), depth=1),
    Fault(name="a segment leaves without a certificate", broken="I5", put=no_certificate),
    Fault(name="a segment leaves before it is read", broken="I5", put=nothing_missing,
          scenario=replace(SCENARIOS["crashes"], is_registered=False, is_slow=True, backlog=9, faults=(),
                           events=())),
    Fault(name="open transactions are not seen", broken="I6", put=no_stable_ends,
          scenario=with_event("begin_transaction"), depth=1),
    Fault(name="growth after the seal is not seen", broken="I6", put=constant(steps, "late_partitions", ()),
          scenario=with_event("late"), depth=1),
    Fault(name="a topic is deleted by its name", broken="I7", put=delete_by_name),
    Fault(name="ends need not stay the same", broken="I8", put=constant(quiescing, "window_s", 0.0)),
    Fault(name="nothing ever counts as drained", broken="I9", put=never_drained),
    Fault(name="other groups are not looked for", broken="I10", put=constant(observer, "_unknown", ()),
          scenario=with_event("stranger"), depth=1),
    Fault(name="ids of topics are not compared", broken="I11", put=no_identity,
          scenario=SCENARIOS["recreated"], depth=1),
    Fault(name="metadata goes to another log", broken="I12", put=carry_metadata),
    Fault(name="compacted topics are moved", broken="I13",
          put=lambda patch: patch.setattr(preconditions, "COMPACT", "never"),
          scenario=Scenario(name="compacted", is_compacted=True, faults=())),
    Fault(name="the number of partitions changes", broken="I14", put=more_partitions),
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_in_the_machine_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.put(monkeypatch)
    exploration = Exploration(scenario=fault.scenario, depth=fault.depth, most_failures=3)
    exploration.explore()
    assert fault.broken in exploration.broken, exploration.failures


def test_every_invariant_has_a_fault() -> None:
    assert {fault.broken for fault in FAULTS} == {f"I{number}" for number in range(1, 15)}


@pytest.mark.parametrize("name", ["calm", *(each.name for each in NARROW)])
def test_without_a_fault_nothing_is_found(name: str) -> None:
    exploration = Exploration(scenario=SCENARIOS.get(name, CALM), depth=0)
    exploration.explore()
    assert exploration.failures == []
