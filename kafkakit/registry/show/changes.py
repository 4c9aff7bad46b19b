"""Changes of tags as text, data and the result of a command."""

from collections import Counter
from collections.abc import Sequence

from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.registry.decide.changes import ChangeOutcome, TagChange
from kafkakit.registry.decide.desired import DesiredTags
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.show.listing import tag_words
from kafkakit.report.blocks import capped, text_of
from kafkakit.report.report import Report

SHOWN = 50
COLUMNS = ("kind", "name", "state", "before", "after", "reason")
PLANNED, DECLINED = "planned", "declined"


def diff_text(changes: Sequence[TagChange]) -> str:
    """What will change, object by object."""
    lines = capped(changes, lambda c: "\n  ".join((f"{c.kind} {c.name}", *c.lines)), SHOWN)
    return text_of([*lines, f"{len(changes)} {_objects(changes)} to change"])


def planned_outcomes(changes: Sequence[TagChange], state: str) -> tuple[ChangeOutcome, ...]:
    """Changes that are not made: a dry run, or the answer was no."""
    return tuple(ChangeOutcome(change=change, state=state) for change in changes)


def changes_report(command: str, outcomes: Sequence[ChangeOutcome], warnings: tuple[str, ...] = ()) -> Report:
    """What was changed, what was not and why; its failure where not all was done."""
    counts = Counter(outcome.state for outcome in outcomes)
    changes = [outcome.change for outcome in outcomes]
    text = diff_text(changes) if counts[PLANNED] else "nothing to change\n"
    if counts and not counts[PLANNED]:
        lines = capped(outcomes, _line, SHOWN)
        text = text_of([*lines, f"{counts['done']} of {len(outcomes)} {_objects(changes)} changed"])
    return Report(
        command=command,
        data={"changes": [_data(outcome) for outcome in outcomes], "counts": dict(counts)},
        text=text,
        columns=COLUMNS,
        rows=tuple(
            (o.change.kind, o.change.name, o.state, tag_words(o.change.before), tag_words(o.change.after), o.reason)
            for o in outcomes
        ),
        warnings=warnings,
        failure=_failure(counts, outcomes),
    )


def desired_report(command: str, desired: DesiredTags) -> Report:
    """The rules as a file of tags."""
    import yaml

    names = {Kind.TOPIC: "topics", Kind.BROKER: "brokers"}
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
    return Report(command=command, data=body, text=text, columns=columns, rows=rows, is_document=True)


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
