"""The values that are set at one topic or broker, each reported once although many brokers may share a file."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafkakit.core.findings import Severity
from kafkakit.rules.config_defs import ConfigDef, ConfigTable, Scope, config_table
from kafkakit.rules.effective import Declared, Source
from kafkakit.rules.secrets import is_secret_key
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic
from kafkakit.rules.violation import Edit, Violation

DYNAMIC = (Source.DYNAMIC_BROKER, Source.DYNAMIC_DEFAULT)
_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
# What a SASL listener's keys end with after the mechanism (`listener.name.x.plain.sasl.jaas.config`).
_MECHANISM_KEYS = (
    "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.server.callback.handler.class", "connections.max.reauth.ms",
)  # fmt: skip


class SetValue(NamedTuple):
    """One value as it is set, with its definition, which is None for a key that the version does not know.

    `base` is the key without the prefix of a listener.
    """

    key: str
    base: str
    declared: Declared
    definition: ConfigDef | None

    @property
    def text(self) -> str:
        """The value as written."""
        return self.declared.text

    @property
    def is_dynamic(self) -> bool:
        """True for a value of a broker's dynamic configuration."""
        return self.declared.source in DYNAMIC

    @property
    def is_ignored(self) -> bool:
        """True for a key in a broker's file that exists in dynamic configuration only."""
        return not self.is_dynamic and self.definition is not None and "dynamic-only" in self.definition.rules

    @property
    def shown(self) -> str:
        """The value for a message, with a blank before it; nothing for a secret."""
        hidden = self.definition is not None and self.definition.is_sensitive
        return "" if hidden or is_secret_key(self.key) else f" {self.text!r:.60}"

    def violation(
        self,
        message: str,
        *,
        severity: Severity | None = None,
        refused: bool = False,
        expected: str | None = None,
        edits: tuple[Edit, ...] = (),
    ) -> Violation:
        """A violation at this value."""
        return Violation(
            message=message,
            key=self.key,
            place=self.declared.place,
            observed=self.text,
            severity=severity,
            expected=expected,
            edits=edits,
            refused=refused,
            subject=self.declared.source.value if self.is_dynamic else "",
        )


def table_of(subject: LintTopic | LintBroker) -> ConfigTable:
    """The configuration table of the version that a subject runs."""
    return subject.config.broker.table if isinstance(subject, LintTopic) else subject.config.table


def base_key(key: str) -> str:
    """A broker key without the prefix of a listener: what its definition is listed under."""
    if not key.startswith("listener.name."):
        return key
    matched = _LISTENER.fullmatch(key)
    if matched is None:
        return key
    return next((k for k in _MECHANISM_KEYS if matched[1].endswith(k)), matched[1])


def own_values(subject: LintBroker, cluster: LintCluster) -> Iterator[tuple[str, Declared]]:
    """Every value that is set at a broker, with its key.

    Values that it shares with the first broker of the cluster, from one place of a file or as the dynamic default,
    come with the first one only.
    """
    first = cluster.brokers[0] if cluster.brokers else subject
    config, shared = subject.config, first.config
    if subject is first:
        yield from config.all_declared()
        return
    for layer, of_first in ((config.static, shared.static), (config.dynamic, shared.dynamic)):
        for key, declared in layer.items():
            if declared.place is None or of_first.get(key) != declared:
                yield key, declared
    for key, declared in config.dynamic_default.items():
        if shared.dynamic_default.get(key) != declared:
            yield key, declared


def definition_of(scope: Scope, minor: str, key: str) -> ConfigDef | None:
    """The definition of a key as it is set, with the prefix of a listener or without."""
    return config_table(minor).find(scope, key if scope is Scope.TOPIC else base_key(key))
