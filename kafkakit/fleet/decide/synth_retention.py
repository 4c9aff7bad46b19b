"""Defects of made fleets: retention that is overshot, and limits of hosts."""

from kafkakit.fleet.decide.synth_defect import Defect, Expected, Scope
from kafkakit.fleet.decide.synth_edit import TableEdit

TOPIC = "topic {topic}"
BROKER = "broker {broker}"
SLOW_BYTES_S = 50.0


def _overshoot(edit: TableEdit, topic: int) -> None:
    """Segments that stay open for seven days on a topic that keeps one."""
    edit.topic_setting(topic, "segment.ms", "604800000")
    edit.put("partitions", edit.rows("partitions", topic=edit.model.names[topic]), bytes_in_s=SLOW_BYTES_S)


def _granularity(edit: TableEdit, topic: int) -> None:
    edit.topic_setting(topic, "retention.bytes", "150000000")


def _descriptors(edit: TableEdit, broker: int) -> None:
    edit.put("brokers", edit.rows("brokers", broker=broker), open_files=50_000)


def _maps(edit: TableEdit, broker: int) -> None:
    edit.put("brokers", edit.rows("brokers", broker=broker), max_map_count=1_200)


def _expected(rule: str, where: str) -> tuple[Expected, ...]:
    return (Expected("retention", rule, where),)


DEFECTS = (
    Defect(
        name="retention-overshoot",
        scope=Scope.TOPIC,
        expected=_expected("KKR201", TOPIC),
        is_lasting=True,
        edit=_overshoot,
    ),
    Defect(
        name="size-granularity",
        scope=Scope.TOPIC,
        expected=_expected("KKR203", TOPIC),
        is_lasting=True,
        edit=_granularity,
    ),
    Defect(
        name="few-descriptors",
        scope=Scope.BROKER,
        expected=_expected("KKB501", BROKER),
        is_lasting=True,
        edit=_descriptors,
    ),
    Defect(name="few-maps", scope=Scope.BROKER, expected=_expected("KKB502", BROKER), is_lasting=True, edit=_maps),
)
