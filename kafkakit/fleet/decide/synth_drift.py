"""Defects of made fleets: what differs between files, brokers, clusters and mirrors."""

from kafkakit.fleet.decide.synth_defect import Defect, Scope
from kafkakit.fleet.decide.synth_edit import TableEdit

TOPIC = ("topic {topic}",)
CLUSTER = ("",)


def _baseline(edit: TableEdit, topic: int) -> None:
    edit.topic_setting(topic, "max.message.bytes", "2000000", is_declared=False)


def _missing(edit: TableEdit, topic: int) -> None:
    """A topic that only files know; named after the healthy topic whose place it takes."""
    edit.add("declared", topic=f"missing-{edit.model.names[topic]}", key="", value=None)


def _unmanaged(edit: TableEdit, topic: int) -> None:
    edit.drop("declared", edit.rows("declared", topic=edit.model.names[topic]))


def _outlier(edit: TableEdit, _: int) -> None:
    edit.put("broker_configs", edit.rows("broker_configs", key="num.io.threads"), value="24", source="static")


def _heterogeneous(edit: TableEdit, _: int) -> None:
    edit.broker_setting(edit.model.shape.brokers, "message.max.bytes", "2097152", "dynamic-broker")


def _versions(edit: TableEdit, _: int) -> None:
    edit.put("brokers", edit.rows("brokers", broker=edit.model.shape.brokers), version="4.2.0")


def _diverged(edit: TableEdit, topic: int) -> None:
    edit.topic_setting(topic, "max.message.bytes", "2000000")


DEFECTS = (
    Defect(name="baseline-drift", scope=Scope.DECLARED, job="drift", rule="KKX001", where=TOPIC, edit=_baseline),
    Defect(name="peer-outlier", scope=Scope.CLUSTER, job="drift", rule="KKX002", where=CLUSTER, edit=_outlier,
           least_clusters=4),
    Defect(name="unequal-brokers", scope=Scope.CLUSTER, job="drift", rule="KKX003", where=CLUSTER, edit=_heterogeneous),
    Defect(name="mirror-divergence", scope=Scope.MIRRORED, job="drift", rule="KKX005", where=TOPIC, edit=_diverged),
    Defect(name="missing-topic", scope=Scope.DECLARED, job="drift", rule="KKX006", where=("topic missing-{topic}",),
           edit=_missing),
    Defect(name="unmanaged-topic", scope=Scope.DECLARED, job="drift", rule="KKX006", where=TOPIC, edit=_unmanaged),
    Defect(name="version-skew", scope=Scope.CLUSTER, job="drift", rule="KKX007", where=CLUSTER, edit=_versions),
)  # fmt: skip
