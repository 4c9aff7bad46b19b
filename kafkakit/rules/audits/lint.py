"""Rules of lint in audits: a row becomes their subject, so that messages and fingerprints are lint's."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kafkakit.core.findings import AuditFinding, audit_finding
from kafkakit.rules.config_defs import NEWEST, config_table
from kafkakit.rules.effective import BrokerConfig, Declared, Source, TopicConfig
from kafkakit.rules.engine import checked
from kafkakit.rules.rule import Limits, LintRule
from kafkakit.rules.subjects import LintCluster, LintTopic, TopicFacts


def topic_findings_of_lint(
    job: str,
    rule: LintRule,
    named: tuple[str, str],
    facts: TopicFacts,
    limits: Limits,
    *,
    settings: Mapping[str, str] | None = None,
    apart: str = "",
) -> Iterator[AuditFinding]:
    """What a rule holds against the topic `named` (cluster, topic) with these facts and effective settings.

    `apart` tells findings of one rule from one another where limits differ; empty for lint's own limit.
    """
    table = config_table(NEWEST)
    cluster, topic = named
    given = {key: Declared(value, Source.TOPIC) for key, value in (settings or {}).items()}
    subject = LintTopic(name=topic, config=TopicConfig(given, BrokerConfig(table)), facts=facts)
    within = LintCluster(name=cluster, table=table, topics=(subject,))
    for violation in rule.check(subject, within, limits):
        told = replace(violation, subject=apart or violation.subject)
        yield audit_finding(job, cluster, checked(rule, told, subject, within).finding)
