"""Which findings of lint a change ends, and which it brings: the rules are run on the state before and after."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ResourceKind
from kafkakit.lint.api import LintRequest, Pieces, lint
from kafkakit.rollout.decide.plan import FindingsChange
from kafkakit.rollout.decide.settings import Resolved, SettingChange
from kafkakit.rules.effective import Configs, Declared, Source


def findings_change(live: Pieces, resolved: Resolved, request: LintRequest) -> FindingsChange:
    """Lint the cluster as it is and as it would be; findings are compared by fingerprint. Twice the cost of lint."""
    before = {c.finding.fingerprint: c.finding for c in lint((), [live], request).unaccepted}
    after = {c.finding.fingerprint: c.finding for c in lint((), [changed_pieces(live, resolved)], request).unaccepted}
    return FindingsChange(
        gone=tuple(f for print_, f in before.items() if print_ not in after),
        new=tuple(f for print_, f in after.items() if print_ not in before),
    )


def changed_pieces(live: Pieces, resolved: Resolved) -> Pieces:
    """The cluster's pieces once everything is changed."""
    topics = _by_name(c for c in resolved.changes if c.kind is ResourceKind.TOPIC)
    dynamic = _by_name(c for c in resolved.changes if c.kind is ResourceKind.BROKER)
    static = _by_name(resolved.restarts)
    default = dynamic.get(CLUSTER_DEFAULT, {})
    return replace(
        live,
        clusters=tuple(
            replace(c, dynamic_default=_edited(c.dynamic_default, default, Source.DYNAMIC_DEFAULT))
            for c in live.clusters
        ),
        topics=tuple(
            replace(t, configs=_edited(t.configs, topics[t.name], Source.TOPIC)) if t.name in topics else t
            for t in live.topics
        ),
        brokers=tuple(
            replace(
                b,
                dynamic=_edited(b.dynamic, dynamic.get(str(b.id), {}), Source.DYNAMIC_BROKER),
                static=_edited(b.static, static.get(str(b.id), {}), Source.STATIC),
            )
            for b in live.brokers
        ),
    )


def _by_name(changes: Iterable[SettingChange]) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    for change in changes:
        found.setdefault(change.name, {})[change.key] = change.after
    return found


def _edited(configs: Configs, changes: Mapping[str, str | None], source: Source) -> Configs:
    kept = {key: value for key, value in configs.items() if key not in changes}
    return kept | {key: Declared(value, source) for key, value in changes.items() if value is not None}
