"""Answers of a metrics service as what a law is told, and faults as problems."""

from datetime import UTC, datetime, timedelta

import pytest

from kafkakit.autothrottle.act.pacer import measure_with
from kafkakit.autothrottle.decide.law import Decision, Memory
from kafkakit.autothrottle.decide.measurements import Load, Observed, TrafficQueries, measured_of
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.storage_reading import Sample
from tests.fakes.admin import FakeClock
from tests.rigs.pacer import MB, PacerRig

AT = datetime(2026, 1, 1, tzinfo=UTC)


class FakeService:
    source = "fake metrics"

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked = error, 0

    def query(self, expression: str, at: datetime) -> tuple[Sample, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        value = 9.0 * MB if "reassignment" not in expression else 2.0 * MB
        return tuple(Sample({"broker_id": str(b)}, value, at - timedelta(seconds=10)) for b in (1, 2, 3))


def test_values_are_told_by_broker_and_what_makes_no_sense_is_left_out() -> None:
    answers = {
        "into": (
            Sample({"pod": "kafka-3", "kind": "big"}, 5.0, AT),
            Sample({"pod": "x"}, 1.0, AT),
            Sample({}, 1.0, AT),
        ),
        "out": (Sample({"pod": "kafka-3"}, float("nan"), AT), Sample({"pod": "4"}, -1.0, AT)),
        "queue_ms": (Sample({"pod": "kafka-3"}, 7.0, AT - timedelta(hours=1)),),
    }
    found = measured_of(answers, TrafficQueries(label="pod", type_label="kind"), 5, 60)
    assert list(found.brokers) == [3]
    assert found.brokers[3].into == Load(total=5.0)
    assert found.brokers[3].out == Load()
    assert (found.brokers[3].instance_type, found.window_ms) == ("big", 60_000)
    assert found.brokers[3].queue_ms == 7.0
    assert found.measured_ms == int(AT.timestamp() * 1000)


def test_queries_have_the_label_the_matchers_and_the_window() -> None:
    texts = TrafficQueries(label="pod", selector='namespace="k"', window_s=60).texts()
    assert texts["moved_into"] == (
        'sum by (pod) (rate(kafka_server_brokertopicmetrics_reassignmentbytesin_total{topic="",namespace="k"}[60s]))'
    )
    typed = TrafficQueries(type_label="kind").texts()["into"]
    assert typed.count("sum by (broker_id, kind)") == 2
    assert not any(word in text for text in texts.values() for word in ("LABEL", "SELECTOR", "WINDOW"))


@pytest.mark.parametrize(("error", "asked"), [(TryLaterError("no answer"), 1), (OperationFailedError("bad query"), 6)])
def test_a_service_that_fails_is_a_problem_in_words_and_one_that_is_away_is_not_asked_on(
    error: Exception, asked: int
) -> None:
    service = FakeService(error)
    found = measure_with(service, FakeClock(), TrafficQueries())()
    assert (service.asked, found.measured_ms, found.brokers) == (asked, -1, {})
    assert str(error) in found.problems[0]


def test_a_service_that_stops_answering_is_asked_once_more_and_no_further() -> None:
    class Hanging(FakeService):
        def query(self, expression: str, at: datetime) -> tuple[Sample, ...]:
            if self.asked:
                self.asked += 1
                raise TryLaterError("no answer")
            return super().query(expression, at)

    service = Hanging()
    found = measure_with(service, FakeClock(), TrafficQueries())()
    assert (service.asked, len(found.problems), sorted(found.brokers)) == (3, 2, [1, 2, 3])


def test_a_law_is_told_both_what_the_service_and_what_the_brokers_tell() -> None:
    rig, seen = PacerRig(), list[Observed]()

    def law(observed: Observed, memory: Memory) -> Decision:
        seen.append(observed)
        return Decision(rates=None, memory=memory)

    rig.cluster.add_topic("v", {0: (1, 4)})
    rig.cluster.kill(4)
    rig.begin()
    pacer, _ = rig.pacer(law=law, measure=measure_with(FakeService(), rig.clock, TrafficQueries()))
    pacer.tick()
    (observed,) = seen
    assert observed.brokers[3].into == Load(total=9.0 * MB, moved=2.0 * MB, copied=1.0 * MB)
    assert not observed.brokers[4].is_alive
    assert observed.under_replicated == 1
    assert [(f.source, f.destination, f.partitions) for f in observed.flows] == [(1, 3, 1)]
    assert 0 < observed.flows[0].left_bytes < 20 * MB
    assert observed.at_ms - observed.measured_ms == 10_000
