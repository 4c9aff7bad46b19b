"""Events in kafka-kit's words, and the thread that sends them."""

import threading
from collections.abc import Sequence

import pytest

from kafkakit.adapters.metrics_services import DatadogApi
from kafkakit.autothrottle.act.pacer import ControlOverrides
from kafkakit.autothrottle.act.service import EventSender
from kafkakit.autothrottle.decide.law import Decision, Memory
from kafkakit.autothrottle.decide.pacer import Override, Tick, event_tags, events_of
from kafkakit.config.security import Secret
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import TryLaterError
from kafkakit.execution.act import control_requests as event_queue
from kafkakit.execution.act.control_requests import MAX_WAITING
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, LEADER_RATE
from tests.rigs.metrics_http import Datadog, Reply, serving
from tests.rigs.pacer import CLUSTER, MB, PacerRig

NOTHING = Decision(rates=None, memory=Memory())
OUT_1 = ConfigKey(ResourceKind.BROKER, "1", LEADER_RATE)
IN_2 = ConfigKey(ResourceKind.BROKER, "2", FOLLOWER_RATE)
IN_9 = ConfigKey(ResourceKind.BROKER, "9", FOLLOWER_RATE)


def tick(topics: Sequence[str] = (), run: str = "", **rates: int) -> Tick:
    applied = {{"out_1": OUT_1, "in_2": IN_2, "in_9": IN_9}[name]: rate for name, rate in rates.items()}
    brokers = (1, 2) if topics else ()
    return Tick(
        moves=len(topics), decision=NOTHING, topics=tuple(topics), brokers=brokers, applied=applied, requested_from=run
    )


def told(before: Tick | None, now: Tick) -> list[tuple[str, str]]:
    return [(e.title, e.text) for e in events_of(before, now)]


MOVING = tick(["a", "b"], out_1=24 * MB, in_2=18_500_000)
SET = (
    "[kafka-autothrottle] Broker replication throttle set",
    "Replication throttles changes for brokers [ID, role, rate]: [1, leader, 24.00], [2, follower, 18.50], \n"
    "Topics currently undergoing replication: [a b]",
)


def test_what_changed_is_told_in_kafka_kits_words() -> None:
    assert told(None, MOVING) == [SET]
    assert told(MOVING, MOVING) == []
    assert told(MOVING, tick(["b"], out_1=24 * MB, in_2=5 * MB)) == [
        ("[kafka-autothrottle] Topics done reassigning", "Topics done reassigning: [a]"),
        (
            SET[0],
            "Replication throttles changes for brokers [ID, role, rate]: [2, follower, 5.00], \n"
            "Topics currently undergoing replication: [b]",
        ),
    ]
    assert told(MOVING, tick()) == [
        ("[kafka-autothrottle] Topics done reassigning", "Topics done reassigning: [a b]"),
        (
            "[kafka-autothrottle] Broker replication throttle removed",
            "Replication throttle removed on the following brokers: [1 2]",
        ),
    ]


def test_an_override_of_a_broker_without_moves_has_an_event_of_its_own() -> None:
    assert told(MOVING, tick(["a", "b"], out_1=24 * MB, in_2=18_500_000, in_9=MB)) == [
        (
            "[kafka-autothrottle] Broker level throttle override(s) configured",
            "Replication throttles changes for brokers [ID, role, rate]: [9, follower, 1.00], \n",
        )
    ]


def test_rates_that_a_run_has_are_not_told() -> None:
    assert told(MOVING, tick(["a", "b"], run="op on h")) == []


def test_while_a_run_has_the_rates_each_topic_that_ends_is_told_once() -> None:
    sent: list[str] = []
    sender = EventSender(lambda title, text, tags: sent.append(title.partition("] ")[2]), (), pytest.fail)
    busy = tick(["b"], run="op on h")
    for now in (MOVING, busy, busy, tick(["b"], out_1=24 * MB, in_2=18_500_000)):
        sender.see(now)
    sender.close()
    assert sent == ["Broker replication throttle set", "Topics done reassigning"]


def test_tags_are_the_name_and_those_given() -> None:
    assert event_tags("") == ("name:kafka-autothrottle",)
    assert event_tags("a:b, c,,") == ("name:kafka-autothrottle", "a:b", "c")


def test_ticks_of_a_pacer_are_told_to_datadog_and_keys_stand_in_headers_alone() -> None:
    rig, datadog, warned = PacerRig(), Datadog(lambda: 0.0), list[str]()
    rig.cluster.add_topic("v", {0: (4,)})
    overrides = ControlOverrides(rig.store, CLUSTER)
    pacer, _ = rig.pacer(overrides=overrides)
    with serving(datadog) as server:
        sender = EventSender(DatadogApi(Secret("k3y"), server.url).send_event, event_tags("x:y"), warned.append)
        for begins in (False, True):
            if begins:
                rig.begin()
            sender.see(pacer.tick())
        overrides.put(4, Override(into=MB, out=MB))
        sender.see(pacer.tick())
        rig.clock.sleep(1000)
        sender.see(pacer.tick())
        sender.close()
        sender.close()
    assert [(title.partition("] ")[2], tags) for title, _, tags in datadog.events] == [
        (name, ["name:kafka-autothrottle", "x:y"])
        for name in (
            "Broker replication throttle set",
            "Broker level throttle override(s) configured",
            "Topics done reassigning",
            "Broker replication throttle removed",
        )
    ]
    assert "[3, follower, 0.10], \nTopics currently undergoing replication: [t]" in datadog.events[0][1]
    assert "[4, follower, 1.00]" in datadog.events[1][1]
    assert datadog.events[3][1].endswith("brokers: [1 2 3]")
    assert warned == []
    assert {(got.headers["Dd-Api-Key"], "k3y" in got.path, "k3y" in str(got.words)) for got in server.got} == {
        ("k3y", False, False)
    }


def test_a_throttle_that_could_not_be_removed_is_not_told_as_removed() -> None:
    rig, sent = PacerRig(), list[str]()
    pacer, _ = rig.pacer()
    rig.begin()
    sender = EventSender(lambda title, text, tags: sent.append(text), (), pytest.fail)
    sender.see(pacer.tick())
    rig.clock.sleep(1000)
    rig.cluster.kill(3)
    for _ in range(2):
        sender.see(pacer.tick())
    rig.cluster.revive(3)
    sender.see(pacer.tick())
    sender.close()
    assert [text.rpartition(": ")[2] for text in sent if "removed on" in text] == ["[1 2]", "[3]"]


def test_a_failure_is_a_warning_and_the_next_event_is_sent() -> None:
    sent, warned = list[str](), list[str]()

    def send(title: str, text: str, tags: Sequence[str]) -> None:
        sent.append(text)
        if len(sent) == 1:
            raise TryLaterError("HTTP 503")

    sender = EventSender(send, (), warned.append)
    sender.see(MOVING)
    sender.see(tick())
    sender.close()
    assert len(sent) == 3
    assert warned == ["an event could not be sent: HTTP 503"]


def test_a_service_that_hangs_holds_no_tick_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "END_S", 0.05)
    go, warned = threading.Event(), list[str]()
    sender = EventSender(lambda *_: go.wait(180), (), warned.append)
    for number in range(MAX_WAITING + 5):
        sender.see(tick(["a"], out_1=number + 1))
    sender.close()
    assert set(warned) == {f"events are dropped: {MAX_WAITING} wait to be sent"}
    assert 1 <= len(warned) <= 5
    go.set()


def test_a_refused_event_is_told_without_its_key() -> None:
    warned: list[str] = []
    datadog = Datadog(lambda: 0.0)
    datadog.faults["/events"] = Reply({"errors": ["Forbidden k3y"]}, 403)
    with serving(datadog) as server:
        sender = EventSender(DatadogApi(Secret("k3y"), server.url).send_event, (), warned.append)
        sender.see(MOVING)
        sender.close()
    assert "403" in warned[0]
    assert "k3y" not in warned[0]
