"""Copying all tags and their history from one store to another; the source is only read."""

from dataclasses import dataclass

from kafkakit.core.errors import InputError, RefusedError, TryLaterError
from kafkakit.ports.reporter import ProgressBar
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.migration import MigrationPlan, StoreContent, TagTables, content_of, plan_migration
from kafkakit.registry.decide.tags import Kind

BY = "migration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What was copied, and what both stores hold after it; `is_done` is False for a dry run.

    `histories` is of how many objects the target lacked changes.
    """

    plan: MigrationPlan
    source: StoreContent
    target: StoreContent
    histories: int
    is_done: bool


def read_tables(store: TagStore) -> TagTables:
    """All tags of a store; raises `InputError` for a record that holds something else, which would be lost."""
    unreadable: list[str] = []
    tables = {kind: store.all(kind, unreadable) for kind in Kind}
    if unreadable:
        raise InputError(unreadable[0], f"holds no tags, one of {len(unreadable)} such records", hint="remove them")
    return tables


def migrate(source: TagStore, target: TagStore, bar: ProgressBar, *, merge: bool, dry_run: bool) -> Migration:
    """Copy what the target lacks, then compare both: a run that was cut short is continued by the same call.

    Raises `RefusedError` where the target has tags that the source has not, unless `merge`; `TryLaterError` where the
    source changed meanwhile, or the target does not hold the same afterwards. The changes of both histories are put in
    the order of time; of too many the oldest go.
    """
    tables = read_tables(source)
    plan, before = plan_migration(tables, read_tables(target)), content_of(tables)
    if plan.others and not merge:
        raise RefusedError(
            f"the target has other tags already: {', '.join(plan.others[:3])}"
            + (f" and {len(plan.others) - 3} more" if len(plan.others) > 3 else ""),
            hint="--merge puts the source's tags over them and keeps the rest",
        )
    if dry_run:
        histories = _copy_histories(source, target, dry_run=True)
        after = content_of(read_tables(target))
        return Migration(plan=plan, source=before, target=after, histories=histories, is_done=False)
    writer = target.acting_for(BY)
    for number, (kind, name, tags) in enumerate(plan.writes, 1):
        writer.change(kind, name, lambda present, tags=tags: {**present, **tags})  # type: ignore[misc]
        bar.update(number, len(plan.writes))
    histories = _copy_histories(source, target, dry_run=False)
    now, held = read_tables(source), read_tables(target)
    left = plan_migration(now, held)
    if content_of(now) != before:
        raise TryLaterError("the source was changed meanwhile", hint="give the same command again to copy the rest")
    if left.writes or (left.others and not merge):
        raise TryLaterError(f"the target was changed meanwhile: {len(left.writes)} objects differ", hint="run it again")
    if lacking := _copy_histories(source, target, dry_run=True):
        raise TryLaterError(f"the histories of {lacking} objects were changed meanwhile", hint="run it again")
    return Migration(plan=plan, source=before, target=content_of(held), histories=histories, is_done=True)


def _copy_histories(source: TagStore, target: TagStore, *, dry_run: bool) -> int:
    """Of how many objects the target lacked changes."""
    found = [target.history.adopt(kind, name, made, dry_run=dry_run) for kind, name, made in source.history.made()]
    return sum(found)
