"""Rules of durability at their boundaries."""

import pytest

from kafkakit.rules.rule import Limits
from tests.rigs.rule_cases import SKIPPED, findings, marks

KNOWN = 'config: {num.io.threads: "8"}\n'
THREE = "brokers: [{id: 1}, {id: 2}, {id: 3}]\n"


def topic(replicas: int | None, minimum: int | None = None, *, head: str = "", more: str = "") -> str:
    config = "" if minimum is None else f'config: {{min.insync.replicas: "{minimum}"}}, '
    factor = "" if replicas is None else f"replication_factor: {replicas}, "
    return f"{head}topics: [{{name: t, partitions: 6, {factor}{config}{more}}}]".replace(", }", "}")


def broker(config: str, head: str = "") -> str:
    return f"{head}brokers: [{{id: 1, config: {{{config}}}}}]"


def brokers(*configs: str, head: str = "") -> str:
    listed = ", ".join(f"{{id: {n}, config: {{{c}}}}}" for n, c in enumerate(configs, 1))
    return f"{head}brokers: [{listed}]"


def state(*partitions: str, config: str = 'min.insync.replicas: "2"') -> str:
    listed = ", ".join(f"{{partition: {n}, {p}}}" for n, p in enumerate(partitions))
    return f"topics: [{{name: t, config: {{{config}}}, observed: {{partitions: [{listed}]}}}}]"


ELR = "\nobserved: {features: {eligible.leader.replicas.version: 1}}"
NO_ELR = "\nobserved: {features: {eligible.leader.replicas.version: 0}}"
OWN = "brokers: [{id: 1, dynamic: {min.insync.replicas: '2'}}]"

CASES = [
    ("KKD101", topic(2, 3), "E"),
    ("KKD101", topic(3, 3), ""),
    ("KKD101", topic(3), SKIPPED),
    ("KKD101", topic(None, 3), SKIPPED),
    ("KKD101", topic(3, head="config: {min.insync.replicas: '4'}\n"), "E"),
    ("KKD102", topic(3, 3), "W"),
    ("KKD102", topic(3, 2), ""),
    ("KKD102", topic(1, 1), ""),
    ("KKD102", topic(2, 3), ""),
    ("KKD103", topic(3, 1), "W"),
    ("KKD103", topic(2, 1), ""),
    ("KKD103", topic(3, 2), ""),
    ("KKD103", topic(3, 1, more="labels: [loss_tolerant]"), ""),
    ("KKD103", topic(3, head=KNOWN), "W"),
    ("KKD104", topic(1), "E"),
    ("KKD104", topic(2), ""),
    ("KKD104", topic(1, head="env: dev\n"), ""),
    ("KKD105", topic(2, 1), "W"),
    ("KKD105", topic(3, 2), ""),
    ("KKD105", topic(3, 3), "W"),
    ("KKD105", topic(4, 3), ""),
    ("KKD105", topic(2), "W"),
    ("KKD105", topic(3), SKIPPED),
    ("KKD106", broker('unclean.leader.election.enable: "true"'), "E"),
    ("KKD106", broker('unclean.leader.election.enable: "false"'), ""),
    ("KKD106", broker('unclean.leader.election.enable: "true"', "labels: [loss_tolerant]\n"), ""),
    ("KKD106", "config: {unclean.leader.election.enable: 'TRUE'}\n" + THREE, "E"),
    ("KKD106", KNOWN + "topics: [{name: t, config: {unclean.leader.election.enable: 'true'}}]", "E"),
    ("KKD106", "topics: [{name: t, partitions: 1}]", SKIPPED),
    ("KKD107", KNOWN + "topics: [{name: t, config: {unclean.leader.election.enable: 'true'}}]", "W"),
    ("KKD107", KNOWN + "topics: [{name: t, config: {unclean.leader.election.enable: 'false'}}]", ""),
    (
        "KKD107",
        "config: {unclean.leader.election.enable: 'true'}\n"
        "topics: [{name: t, config: {unclean.leader.election.enable: 'false'}}]",
        "W",
    ),
    ("KKD107", "topics: [{name: t, config: {unclean.leader.election.enable: 'false'}}]", SKIPPED),
    ("KKD108", 'version: "4.2"\n' + KNOWN + THREE, "W"),
    ("KKD108", 'version: "4.2"\nconfig: {default.replication.factor: "2"}\n' + THREE, ""),
    ("KKD108", 'version: "4.2"\n' + KNOWN + "broker_count: 1\nbrokers: [{id: 1}]", ""),
    ("KKD108", 'version: "4.3"\n' + KNOWN + THREE, SKIPPED),
    ("KKD108", 'version: "4.3"\nconfig: {default.replication.factor: "1"}\n' + THREE, "W"),
    (
        "KKD108",
        'version: "4.3"\nbrokers: [{id: 1}, {id: 2}, {id: 9, roles: [controller], config: {}}]',
        "W",
    ),
    (
        "KKD108",
        'version: "4.3"\nbrokers: '
        '[{id: 1}, {id: 2}, {id: 9, roles: [controller], config: {default.replication.factor: "3"}}]',
        "",
    ),
    ("KKD109", 'version: "4.1"\n' + OWN + ELR, "E"),
    ("KKD109", 'version: "4.1"\n' + OWN + NO_ELR, ""),
    ("KKD109", 'version: "4.1"\n' + OWN, SKIPPED),
    ("KKD109", 'version: "4.0"\n' + OWN, ""),
    ("KKD109", 'version: "4.1"\n' + broker('min.insync.replicas: "2"') + ELR, ""),
    ("KKD110", brokers('min.insync.replicas: "2"', 'min.insync.replicas: "1"'), "E"),
    ("KKD110", brokers('min.insync.replicas: "2"', 'min.insync.replicas: "2"'), ""),
    ("KKD110", brokers('min.insync.replicas: "2"', 'node.id: "2"'), "E"),
    ("KKD110", topic(3, 2, head=brokers('min.insync.replicas: "2"', 'node.id: "2"') + "\n"), ""),
    ("KKD110", brokers('node.id: "1"', 'min.insync.replicas: "2"', head='defaults: {min.insync.replicas: "2"}\n'), ""),
    ("KKD111", topic(4, head=THREE), "E"),
    ("KKD111", topic(3, head=THREE), ""),
    ("KKD111", topic(3, head="brokers: [{id: 1}, {id: 2}, {id: 3, alive: false}]\n"), "E"),
    ("KKD111", topic(3), SKIPPED),
    ("KKD112", topic(2, head="rack_count: 3\n"), "W"),
    ("KKD112", topic(3, head="rack_count: 3\n"), ""),
    ("KKD112", topic(1, head="rack_count: 2\n"), "W"),
    ("KKD112", topic(2, head="rack_count: 2\n"), ""),
    ("KKD112", topic(1, head="rack_count: 1\n"), ""),
    ("KKD112", topic(3, head="rack_count: 5\n"), ""),
    ("KKD112", topic(2), SKIPPED),
    ("KKD113", topic(3, 2, head="rack_count: 2\n"), "W"),
    ("KKD113", topic(4, 2, head="rack_count: 2\n"), ""),
    ("KKD113", topic(3, 2, head="rack_count: 3\n"), ""),
    ("KKD113", topic(3, 1, head="rack_count: 2\n"), ""),
    ("KKD113", topic(3, 2, head="rack_count: 1\n"), ""),
    ("KKD113", topic(2, 3, head="rack_count: 3\n"), ""),
    ("KKD114", "config: {offsets.topic.replication.factor: '2'}\n" + THREE, "E"),
    ("KKD114", "config: {offsets.topic.replication.factor: '3'}\n" + THREE, ""),
    ("KKD114", "config: {offsets.topic.replication.factor: '2'}\nbrokers: [{id: 1}, {id: 2}]", ""),
    ("KKD114", broker("transaction.state.log.replication.factor: '1'", "broker_count: 1\n"), ""),
    ("KKD114", THREE + "topics: [{name: __consumer_offsets, replication_factor: 2}]", "E"),
    ("KKD114", THREE + "topics: [{name: __consumer_offsets, replication_factor: 3}]", ""),
    ("KKD115", broker("transaction.state.log.min.isr: '3'"), "E"),
    ("KKD115", broker("transaction.state.log.min.isr: '2'"), ""),
    ("KKD115", broker("transaction.state.log.min.isr: '1', transaction.state.log.replication.factor: '1'"), ""),
    ("KKD115", broker("share.coordinator.state.topic.min.isr: '3'"), "E"),
    ("KKD115", broker("rlmm.config.remote.log.metadata.topic.replication.factor: '2'", 'version: "4.3"\n'), "E"),
    ("KKD115", broker("rlmm.config.remote.log.metadata.topic.replication.factor: '2'", 'version: "4.2"\n'), ""),
    ("KKD118", broker("replica.lag.time.max.ms: '9999'"), "W"),
    ("KKD118", broker("replica.lag.time.max.ms: '10000'"), ""),
    ("KKD118", "brokers: [{id: 1}]", SKIPPED),
    ("KKD119", broker("controlled.shutdown.enable: 'false'"), "W"),
    ("KKD119", broker("controlled.shutdown.enable: 'true'"), ""),
    ("KKD119", broker("node.id: '1'"), ""),
    ("KKD119", "brokers: [{id: 1, roles: [controller], config: {controlled.shutdown.enable: 'false'}}]", ""),
    ("KKD120", "topics: [{name: t, config: {flush.ms: '1000'}}]", "W"),
    ("KKD120", "topics: [{name: t, config: {flush.ms: '9223372036854775807'}}]", ""),
    ("KKD120", "topics: [{name: app-x-changelog, config: {flush.ms: '1000'}}]", ""),
    ("KKD120", "config: {log.flush.interval.messages: '10000'}\n" + THREE, "W"),
    ("KKD121", broker("node.id: '1'"), "W"),
    ("KKD121", broker("auto.create.topics.enable: 'false'"), ""),
    ("KKD121", broker("node.id: '1'", "env: staging\n"), ""),
    ("KKD122", state("replicas: [1, 2, 3], isr: [1, 2, 3], leader: 1"), ""),
    ("KKD122", state("replicas: [1, 2, 3], isr: [1, 2], leader: 1"), "E"),
    ("KKD122", state("replicas: [1, 2, 3], isr: [1], leader: -1"), "EE"),
    ("KKD122", state("replicas: [1, 2, 3]"), SKIPPED),
    ("KKD122", topic(3), SKIPPED),
    ("KKD123", state("replicas: [1, 2, 3]", "replicas: [1, 2]"), "E"),
    ("KKD123", state("replicas: [1, 2, 3]", "replicas: [3, 1, 2]"), ""),
    ("KKD123", topic(3), SKIPPED),
]


@pytest.mark.parametrize(("code", "text", "expected"), CASES)
def test_durability_at_its_boundaries(code: str, text: str, expected: str) -> None:
    assert marks(code, text) == expected


def test_targets_are_options() -> None:
    four = Limits(target_replication_factor=4)
    assert marks("KKD105", topic(3, 2), four) == "W"
    assert marks("KKD112", topic(3, head="rack_count: 4\n"), four) == "W"
    assert marks("KKD112", topic(3, head="rack_count: 3\n"), four) == ""


def test_an_upgrade_to_4_1_counts_as_one_to_eligible_leader_replicas() -> None:
    text = 'version: "4.0"\n' + OWN
    assert marks("KKD109", text, target="4.1") == "E"


def test_a_shared_setting_is_reported_once_and_at_its_line() -> None:
    (found,) = findings("KKD106", "config:\n  unclean.leader.election.enable: 'true'\n" + THREE)
    assert found.place is not None
    assert (found.place.line, found.where) == (2, "broker 1")


def test_messages_have_the_numbers() -> None:
    (loss,) = findings("KKD113", topic(3, 2, head="rack_count: 2\n"))
    assert loss.message == (
        "3 replicas in 2 racks: losing one leaves 1, below min.insync.replicas 2, and writes with acks=all fail"
    )
    assert loss.hint == "kafkakit topicmappr set-replication 4 --topics t"
    (short,) = findings("KKD122", state("replicas: [1, 2, 3], isr: [1], leader: 1"))
    assert short.message.startswith("1 partition (0) has fewer replicas in sync than min.insync.replicas 2")
