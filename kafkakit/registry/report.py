"""Results of commands of the registry: topics, brokers and names, changes of tags, cleanups and migrations.

Also a topic that was created or deleted. Changes of tags are shown as text and as data.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from functools import cache
from hashlib import sha256

from msgspec import UNSET, to_builtins

from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.quantities import count_of
from kafkakit.core.rpc import RpcAnswer
from kafkakit.registry.decide.desired_tags import BrokerEntry, ChangeOutcome, DesiredTags, TagChange, TopicEntry
from kafkakit.registry.decide.requests import CreateRequest
from kafkakit.registry.decide.tags import CleanupPlan, MigrationPlan, ObjectKind, StoreContent, Tags
from kafkakit.registry.decide.v2_calls import HistoryEntry, TranslatedOffset, ValueChange
from kafkakit.report.pages import html_page, package_text
from kafkakit.report.report import RawDocument, Remarks, Report, ResultTable, attributes, cap_lines, records

SHOWN = 50
PLANNED, DECLINED = "planned", "declined"


def diff_lines(changes: Sequence[TagChange]) -> list[str]:
    """What will change, object by object."""
    lines = cap_lines(changes, lambda c: "\n  ".join((f"{c.kind} {c.name}", *c.lines)), SHOWN)
    return [*lines, f"{len(changes)} {_objects(changes)} to change"]


def planned_outcomes(changes: Sequence[TagChange], state: str) -> tuple[ChangeOutcome, ...]:
    """Changes that are not made: a dry run, or the answer was no."""
    return tuple(ChangeOutcome(change=change, state=state) for change in changes)


def changes_report(command: str, outcomes: Sequence[ChangeOutcome], warnings: tuple[str, ...] = ()) -> Report:
    """What was changed, what was not and why; its failure where not all was done."""
    counts = Counter(outcome.state for outcome in outcomes)
    changes = [outcome.change for outcome in outcomes]
    lines = diff_lines(changes) if counts[PLANNED] else ["nothing to change"]
    if counts and not counts[PLANNED]:
        done = f"{counts['done']} of {len(outcomes)} {_objects(changes)} changed"
        lines = [*cap_lines(outcomes, _line, SHOWN), done]
    return Report(
        command=command,
        data={"changes": [_data(outcome) for outcome in outcomes], "counts": dict(counts)},
        sections=lines,
        table=ResultTable(
            ("kind", "name", "state", "before", "after", "reason"),
            tuple(
                (o.change.kind, o.change.name, o.state, tag_words(o.change.before), tag_words(o.change.after), o.reason)
                for o in outcomes
            ),
        ),
        warnings=warnings,
        failure=_failure(counts, outcomes),
    )


def desired_report(command: str, desired: DesiredTags) -> Report:
    """The rules as a file of tags."""
    import yaml

    names = {ObjectKind.TOPIC: "topics", ObjectKind.BROKER: "brokers"}
    body = {
        names[kind]: [
            {**({"names": list(r.names)} if r.names else {"where": r.where}), "tags": dict(sorted(r.tags.items()))}
            for r in rules
        ]
        for kind, rules in desired.rules.items()
    }
    text = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    rows = tuple(
        (kind, name, key, value)
        for kind, rules in desired.rules.items()
        for r in rules
        for name in r.names
        for key, value in sorted(r.tags.items())
    )
    columns = ("kind", "name", "key", "value")
    return Report(command=command, data=body, sections=(RawDocument(text),), table=ResultTable(columns, rows))


def _failure(counts: Counter[str], outcomes: Sequence[ChangeOutcome]) -> KafkakitError | None:
    if counts[DECLINED]:
        return OperationFailedError("not confirmed, nothing was changed")
    if counts["unknown"]:
        reason = next(o.reason for o in outcomes if o.state == "unknown")
        return TryLaterError(f"stopped after {counts['done']} changes: {reason}", hint="give the same command again")
    if counts["conflict"]:
        hint = "give the same command again: it starts from the tags as they are now"
        return OperationFailedError(f"{counts['conflict']} objects were changed by other processes", hint=hint)
    if counts["failed"]:
        return OperationFailedError(f"{counts['failed']} of {len(outcomes)} changes were refused")
    return None


def _line(outcome: ChangeOutcome) -> str:
    head = f"{outcome.change.kind} {outcome.change.name}: {outcome.state}"
    return f"{head} ({outcome.reason})" if outcome.reason else f"{head} ({'; '.join(outcome.change.lines)})"


def _data(outcome: ChangeOutcome) -> dict[str, object]:
    change = outcome.change
    return {
        "kind": str(change.kind),
        "name": change.name,
        "state": outcome.state,
        "before": dict(change.before),
        "after": dict(change.after),
        **({"reason": outcome.reason} if outcome.reason else {}),
    }


def _objects(changes: Sequence[TagChange]) -> str:
    kinds = {change.kind for change in changes}
    one = str(kinds.pop()) if len(kinds) == 1 else "object"
    return one if len(changes) == 1 else f"{one}s"


def topics_report(topics: Sequence[TopicEntry]) -> Report:
    """Topics with their tags."""
    columns = ("name", "partitions", "replication", "tags")
    rows = tuple((t.name, t.partitions, t.replication, tag_words(t.tags)) for t in topics)
    data = [
        {
            **attributes(t, "name partitions replication tags configs"),
            **({"replicas": {number: row.ids for number, row in t.replicas.items()}} if t.replicas else {}),
        }
        for t in topics
    ]
    return _report("registry topics", "topics", data, columns, rows)


def brokers_report(brokers: Sequence[BrokerEntry]) -> Report:
    """Brokers with their tags."""
    columns = ("id", "host", "port", "rack", "tags")
    rows = tuple((b.id, b.host, b.port, b.rack, tag_words(b.tags)) for b in brokers)
    data = [
        {
            **dict(zip(columns[:4], row, strict=False)),
            **attributes(b, "interbrokerprotocolversion logmessageformat tags"),
        }
        for b, row in zip(brokers, rows, strict=True)
    ]
    return _report("registry brokers", "brokers", data, columns, rows)


def names_report(command: str, what: str, names: Sequence[str | int]) -> Report:
    """Names or ids, one a line."""
    lines = [str(name) for name in names] or [f"no {what}"]
    rows = tuple((name,) for name in names)
    return Report(command=command, data={what: list(names)}, sections=lines, table=ResultTable((what,), rows))


def offsets_report(offsets: Sequence[TranslatedOffset]) -> Report:
    """Upstream and local offset of each partition, until where the true one may lie, and what may be read twice."""
    columns = (
        "partition", "upstream_offset", "local_offset", "local_end_offset", "exact", "may_repeat",
        "assumes_no_own_records",
    )  # fmt: skip
    rows = tuple(
        (
            f"{o.topic}:{o.partition}",
            o.upstream_offset,
            o.local_offset,
            None if o.local_end_offset is UNSET else o.local_end_offset,
            o.exact,
            None if o.may_repeat is UNSET else o.may_repeat,
            o.assumes_no_own_records,
        )
        for o in offsets
    )
    return _report("registry translate-offsets", "offsets", records(columns, rows), columns, rows)


def history_report(entries: Sequence[HistoryEntry]) -> Report:
    """Who changed which tags, the newest change first."""
    columns = ("at", "kind", "name", "by", "changes")
    rows = tuple((e.at, e.kind, e.name, e.by, "; ".join(map(_change_words, e.changes))) for e in entries)
    return _report("registry history", "entries", to_builtins(entries), columns, rows)


def _change_words(change: ValueChange) -> str:
    """As in a difference: `+key:new`, `-key:old`, `key:old->new`."""
    if change.old is UNSET:
        return f"+{change.key}:{change.new}"
    return f"-{change.key}:{change.old}" if change.new is UNSET else f"{change.key}:{change.old}->{change.new}"


def tag_words(tags: Tags) -> str:
    """`key:value` texts, sorted."""
    return ",".join(f"{key}:{value}" for key, value in sorted(tags.items()))


def _report(
    command: str, what: str, data: Sequence[object], columns: tuple[str, ...], rows: tuple[tuple[object, ...], ...]
) -> Report:
    return Report(command=command, data={what: data}, sections=(ResultTable(columns, rows, empty=f"no {what}"),))


TOPIC_COLUMNS = ("name", "partitions", "replication", "state")


def created_report(request: CreateRequest, *, is_done: bool, notes: Sequence[str] = ()) -> Report:
    """The new topic, or what a dry run would create; `notes` are about its placement."""
    topic = dict(request.topic or {})
    state = "created" if is_done else "planned"
    parts = count_of(topic["partitions"], "partition")
    words = f"{topic['name']}: {parts}, {count_of(topic['replication'], 'replica')} of each"
    return Report(
        command="registry create",
        data={"topic": topic, "state": state, "notes": tuple(notes)},
        sections=(f"{'created' if is_done else 'would create'} topic {words}", Remarks("note", notes)),
        table=ResultTable(TOPIC_COLUMNS, ((topic["name"], topic["partitions"], topic["replication"], state),)),
    )


def deleted_report(topic: TopicEntry, *, is_done: bool, is_dry: bool) -> Report:
    """The topic that is gone, or would be; its failure where the answer was no."""
    state = "deleted" if is_done else "planned" if is_dry else "declined"
    words = {"deleted": "deleted topic {}", "planned": "would delete topic {}", "declined": "not deleted: topic {}"}
    return Report(
        command="registry delete",
        data={"topic": topic.name, "state": state},
        sections=(words[state].format(topic.name),),
        table=ResultTable(TOPIC_COLUMNS, ((topic.name, topic.partitions, topic.replication, state),)),
        failure=OperationFailedError("not confirmed, nothing was changed") if state == "declined" else None,
    )


def planned_steps(plans: Sequence[CleanupPlan]) -> list[tuple[str, ObjectKind, str]]:
    """What a cleanup would do, in its order."""
    return [
        (what, plan.kind, name)
        for plan in plans
        for what, names in (("mark", plan.marks), ("unmark", plan.unmarks), ("delete", plan.drops))
        for name in names
    ]


def cleanup_report(
    plans: Sequence[CleanupPlan],
    steps: Sequence[tuple[str, ObjectKind, str]],
    *,
    is_dry: bool,
    command: str = "registry cleanup",
) -> Report:
    """What was done, what waits, and why nothing was done for a kind."""
    rows = tuple((what, str(kind), name) for what, kind, name in steps)
    actions = ResultTable(("action", "kind", "name"), rows, empty="")
    counts = Counter(what for what, _, _ in steps)
    waiting = sum(len(plan.waiting) for plan in plans)
    refused = [plan.refused for plan in plans if plan.refused]
    summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing to do"
    later = f"; marked earlier, not old enough yet: {waiting}" if waiting else ""
    failure = None
    if refused:
        hint = "look at what the cluster lists; --force cleans up all the same"
        failure = OperationFailedError("; ".join(refused), hint=hint)
    return Report(
        command=command,
        data={
            "actions": actions.records(),
            "waiting": [{"kind": str(plan.kind), "name": name} for plan in plans for name in plan.waiting],
            "refused": refused,
            "dry_run": is_dry,
        },
        sections=(
            actions,
            f"{'would do: ' if is_dry and rows else ''}{summary}{later}",
        ),
        failure=failure,
    )


def migration_report(
    names: tuple[str, str],
    plan: MigrationPlan,
    contents: tuple[StoreContent, StoreContent],
    histories: int,
    *,
    is_done: bool,
) -> Report:
    """How much was copied, of how many objects the history, and what both stores hold."""
    pairs = zip(names, contents, strict=True)
    rows = tuple((name, each.brokers, each.topics, each.digest) for name, each in pairs)
    stores = ResultTable(("store", "brokers", "topics", "sha256"), rows)
    verb = "copied" if is_done else "would copy"
    summary = f"{verb} the tags of {len(plan.writes)} objects; {plan.same} were there already"
    summary += f"; {verb} the history of {histories}"
    if is_done:
        equal = contents[0].digest == contents[1].digest
        summary += "; both hold the same" if equal else "; the target has more beside them"
    return Report(
        command="registry migrate",
        data={
            "state": "done" if is_done else "planned",
            "copied" if is_done else "to_copy": len(plan.writes),
            "already_there": plan.same,
            "histories": histories,
            "stores": stores.records(),
        },
        sections=(stores, summary),
    )


def registry_page(profile: str = "", cluster_id: str = "") -> RpcAnswer:
    """The page as an answer over HTTP; it names the profile and the cluster, where they are known."""
    title = " ".join(filter(None, ("Registry", profile, cluster_id and f"(cluster {cluster_id})")))
    return RpcAnswer(body=html_page("registry.html", title=title), headers=_headers())


@cache
def _headers() -> tuple[tuple[str, str], ...]:
    # The style and the script of this document alone, calls to this server alone, and no text that becomes markup.
    policy = (
        "default-src 'none'",
        f"script-src {_hash('registry.js')}",
        f"style-src {_hash('base.css', 'registry.css')}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", "; ".join(policy)),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-cache"),
    )


def _hash(*names: str) -> str:
    text = "".join(package_text(name) for name in names)
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
