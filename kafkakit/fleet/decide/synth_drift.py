"""Defects of made fleets: what differs between files, brokers, clusters and mirrors."""

from kafkakit.fleet.decide.synth_defect import Defect, Expected, Scope
from kafkakit.fleet.decide.synth_edit import TableEdit


def _baseline(edit: TableEdit, topic: int) -> None:
    edit.topic_setting(topic, "max.message.bytes", "2000000", is_declared=False)


def _missing(edit: TableEdit, topic: int) -> None:
    """A topic that only files know; named after the healthy topic whose place it takes."""
    name = edit.model.names[topic]
    edit.add("declared", edit.rows("declared", topic=name), topic=f"missing-{name}", key="", value=None)


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


def _expected(rule: str, where: str = "topic {topic}") -> tuple[Expected, ...]:
    return (Expected("drift", rule, where),)


DEFECTS = (
    Defect(name="baseline-drift", scope=Scope.DECLARED, expected=_expected("KKX001"), is_lasting=True, edit=_baseline),
    Defect(
        name="peer-outlier",
        scope=Scope.CLUSTER,
        expected=_expected("KKX002", ""),
        is_lasting=True,
        edit=_outlier,
        least_clusters=4,
    ),
    Defect(
        name="unequal-brokers",
        scope=Scope.CLUSTER,
        expected=_expected("KKX003", ""),
        is_lasting=True,
        edit=_heterogeneous,
    ),
    Defect(
        name="mirror-divergence", scope=Scope.MIRRORED, expected=_expected("KKX005"), is_lasting=True, edit=_diverged
    ),
    Defect(
        name="missing-topic",
        scope=Scope.DECLARED,
        expected=_expected("KKX006", "topic missing-{topic}"),
        is_lasting=True,
        edit=_missing,
    ),
    Defect(
        name="unmanaged-topic", scope=Scope.DECLARED, expected=_expected("KKX006"), is_lasting=True, edit=_unmanaged
    ),
    Defect(name="version-skew", scope=Scope.CLUSTER, expected=_expected("KKX007", ""), is_lasting=True, edit=_versions),
)
