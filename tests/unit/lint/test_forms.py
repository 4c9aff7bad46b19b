"""One cluster in other forms and in other files has the same findings."""

import json

import yaml

from tests.rigs.lint_examples import outcome_of

BROKER = {
    "process.roles": "broker",
    "node.id": "0",
    "broker.rack": "a",
    "log.dirs": "/tmp/kafka",
    "listeners": "PLAINTEXT://h:9092",
    "controller.quorum.bootstrap.servers": "c:9093",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "1",
    "log.retention.hours": "24",
    "log.retention.ms": "3600000",
    "num.io.threads": "many",
    "log.cleaner.enable": "false",
    "unclean.leader.election.enable": "true",
    "offsets.retention.minutes": "60",
    "no.such.key": "1",
    "ssl.key.password": "hunter2",
}
TOPICS = {
    "orders": {"min.insync.replicas": "4", "retention.ms": "86400000", "segment.bytes": "1024"},
    "clicks": {"cleanup.policy": "compact", "retention.bytes": "5", "max.message.bytes": "x"},
    "plain": {},
}


def brokers() -> list[dict[str, str]]:
    return [{**BROKER, "node.id": str(n), "broker.rack": rack} for n, rack in ((1, "a"), (2, "b"), (3, "c"))]


def as_kafkakit() -> dict[str, object]:
    return {
        "brokers": [{"config": config} for config in brokers()],
        "topics": [
            {"name": name, "partitions": 6, "replication_factor": 3, "config": config}
            for name, config in TOPICS.items()
        ],
    }


def as_plan() -> dict[str, object]:
    resources = [
        {
            "address": f"kafka_topic.{name}",
            "mode": "managed",
            "type": "kafka_topic",
            "values": {"name": name, "partitions": 6, "replication_factor": 3, "config": config},
        }
        for name, config in TOPICS.items()
    ]
    return {"format_version": "1.2", "planned_values": {"root_module": {"resources": resources}}}


def found(texts: dict[str, str]) -> list[tuple[str, str, str, str]]:
    outcome = outcome_of(texts)
    return sorted(
        (f.rule, f.where, f.setting.key if f.setting else "", f.message) for f in (c.finding for c in outcome.checked)
    )


def test_the_findings_are_many() -> None:
    rules = {rule for rule, *_ in found({"a.yaml": yaml.safe_dump(as_kafkakit())})}
    assert len(rules) >= 15


def test_properties_and_plans_have_the_findings_of_kafkakit_files() -> None:
    files = {
        f"server-{number}.properties": "".join(f"{key} = {value}\n" for key, value in config.items())
        for number, config in enumerate(brokers())
    }
    files["plan.json"] = json.dumps(as_plan())
    assert found(files) == found({"a.yaml": yaml.safe_dump(as_kafkakit())})


def test_json_block_and_flow_have_the_same_findings() -> None:
    whole = as_kafkakit()
    block = found({"a.yaml": yaml.safe_dump(whole, default_flow_style=False)})
    assert found({"a.json": json.dumps(whole)}) == block
    assert found({"a.yaml": yaml.safe_dump(whole, default_flow_style=True)}) == block


def test_a_file_that_is_split_has_the_findings_of_the_whole() -> None:
    whole = as_kafkakit()
    parts: list[dict[str, object]] = [{key: [item]} for key, items in whole.items() for item in items]  # type: ignore[attr-defined]
    files = {f"{number}.yaml": yaml.safe_dump(part) for number, part in enumerate(parts)}
    assert found(files) == found({"a.yaml": yaml.safe_dump(whole)})
    documents = "---\n".join(yaml.safe_dump(part) for part in parts)
    assert found({"a.yaml": documents}) == found({"a.yaml": yaml.safe_dump(whole)})
