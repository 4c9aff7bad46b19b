"""From what was seen of a group to the plan of an edit, refusing whatever could lose a record unasked.

A group may be edited only while it has no members. An edit is undone, or finished if it was interrupted, by a plan from
its journal and the commits of now.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from kafkakit.core.cluster_facts import CommittedOffset, GroupDescription, GroupState, GroupType, ItemError
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of, sanitize, shown_name
from kafkakit.streams.commits.decide.editing.changes import (
    GroupObservation,
    SeenPartition,
    WantedState,
    all_done,
    apply_verb,
    dialect_for,
    encode_state,
    losses,
    redate,
)
from kafkakit.streams.commits.decide.editing.edit import (
    CommitChange,
    CommitStanding,
    Delete,
    EditPlan,
    EditRecord,
    EditRequest,
    EditVerdict,
    PartitionEdit,
    Reject,
    Replay,
    Reset,
    Skip,
    Translate,
    Verb,
    same_commit,
    verb_name,
)
from kafkakit.streams.commits.decide.group_look import is_unstable
from kafkakit.streams.model.commit import CommitState, OffsetRanges, Reading, Watermark, ranges_text
from kafkakit.streams.model.dialects.dialect import EncodedMetadata
from kafkakit.streams.model.dialects.registry import WITHOUT_METADATA, dialect_named, read_metadata

MOST_REASONS = 3


def decide_edit(observed: GroupObservation, request: EditRequest, words: Iterable[str] = ()) -> EditPlan:
    """Plan an edit of all partitions that were seen; `words` say how the request was understood.

    Raises `RefusedError` when one of them cannot be done as asked: an edit is whole or not at all.
    """
    if isinstance(request.verb, Delete) and not request.verb.whole_group and not observed.group.group:
        raise RefusedError(
            "brokers do not delete single commits of the group with the empty name",
            hint="--all in place of --topic deletes the group with all its commits",
        )
    edits, refused = [], []
    for seen in observed.partitions:
        try:
            edits.append(_edit(seen, observed, request))
        except RefusedError as error:
            refused.append(error)
    if refused:
        more = len(refused) - MOST_REASONS
        reasons = "; ".join(error.message for error in refused[:MOST_REASONS])
        raise RefusedError(reasons + (f"; and {more} more partitions" if more > 0 else ""), hint=refused[0].hint)
    return EditPlan(
        verb=verb_name(request.verb),
        cluster_id=observed.cluster_id,
        group=observed.group.group,
        taken_at=observed.taken_at,
        limit_chars=observed.limit_chars,
        edits=tuple(edits),
        words=(*words, *_deletion_words(request.verb, observed)),
        request_id=request.verb.request_id if isinstance(request.verb, Replay) else None,
        removes_group=isinstance(request.verb, Delete) and request.verb.whole_group,
    )


def _deletion_words(verb: Verb, observed: GroupObservation) -> tuple[str, ...]:
    """What a deletion is about beside commits: a group without any, the state of a share group, a live group."""
    if not isinstance(verb, Delete):
        return ()
    group = observed.group
    if not verb.whole_group:
        if not is_live(group):
            return ()
        return (
            f"the group is live ({count_of(len(group.members), 'member')}): brokers refuse if a member is subscribed "
            "to the topic",
        )
    if group.type is GroupType.SHARE:
        places = count_of(observed.shared, "partition")
        return (f"a share group: its state for {places} is deleted with it, and undo cannot restore that",)
    return () if observed.partitions else ("the group has no commits: only the group itself is deleted",)


def times_wanted(plan: EditPlan) -> Mapping[TopicPartition, frozenset[int]]:
    """The offsets whose record times the plan's payloads would tell, where a new watermark is due."""
    wanted_at: dict[TopicPartition, frozenset[int]] = {}
    for edit in plan.changes:
        state = edit.state_after
        if dialect_named(edit.dialect_after).holds_details and state is not None and state.watermark is None:
            wanted_at[edit.partition] = frozenset(offset for offset in (state.base, state.end - 1) if offset >= 0)
    return wanted_at


def _edit(seen: SeenPartition, observed: GroupObservation, request: EditRequest) -> PartitionEdit:
    if isinstance(request.verb, Delete):
        return _deletion(seen)
    _check_adoption(seen, request)
    aim = apply_verb(seen, request)
    verb = request.verb
    name = verb.to if isinstance(verb, Translate) else dialect_for(seen, observed, request.allows.dialect)
    dialect = dialect_named(name)
    is_broken = seen.reading is not None and (seen.reading.problem is not None or seen.has_nul != dialect.ends_with_nul)
    stays = aim.state == seen.state and name == seen.dialect
    if stays and not isinstance(verb, Reset) and not (is_broken and isinstance(verb, Translate)):
        return _unchanged_edit(seen, aim)
    if not dialect.is_understood and not isinstance(verb, Reset):
        raise RefusedError(
            f"{seen.partition}: its commit carries metadata of an unknown dialect",
            hint="look at it with commits decode; --dialect plain drops it, --dialect kkm1 or pc replaces it",
        )
    state = _with_watermark(seen, aim.state)
    forgotten, notes = 0, list(aim.notes)
    if isinstance(verb, Translate):
        notes += [f"lost: {words}" for words in losses(seen.reading, state, dialect)]
        if state.done and not dialect.holds_done:
            forgotten = state.done.count
            notes.append(f"lost: {count_of(forgotten, 'acknowledgement')} above {state.base}")
            state = CommitState(base=state.base)
    written = encode_state(seen, observed, state, dialect)
    forgotten += written.forgotten
    if written.forgotten or written.left_out:
        notes.append(_coarsened_text(seen, observed, written, request))
    after = CommittedOffset(
        offset=state.base, metadata=dialect.stored(written.text), leader_epoch=_epoch(seen, state.base)
    )
    found = read_metadata(after.metadata, after.offset, seen.identity)
    edit = PartitionEdit(
        partition=seen.partition,
        topic_id=seen.identity.topic_id,
        before=seen.committed,
        after=after,
        dialect_before=seen.dialect,
        dialect_after=found.dialect,
        state_before=seen.state,
        state_after=found.state,
        reopened=_held_offsets(_done_offsets(seen.state).minus(all_done(found.state)), seen),
        passed=_held_offsets(all_done(found.state).minus(_done_offsets(seen.state)), seen),
        forgotten=forgotten,
        notes=(*notes, *written.notes),
        warnings=(
            *_unusable_warnings(seen),
            *_newly_bound(seen, found),
            *aim.warnings,
            *_missed_warnings(request, aim, found.state),
            *written.warnings,
            *_spilled_warnings(seen),
        ),
    )
    _check_sound(seen, aim, state, found.state)
    _check_in_log(seen, found.state, request)
    return edit


def _deletion(seen: SeenPartition) -> PartitionEdit:
    if seen.committed is None:
        return replace_commit(seen, None, "has no commit, so there is nothing to delete")
    if seen.is_gone:
        return replace_commit(seen, None, "the partition does not exist any more: undo cannot restore its commit")
    pending = OffsetRanges.of([(seen.span.start, seen.span.end)]).minus(_done_offsets(seen.state))
    return replace_commit(
        seen,
        None,
        "without a commit consumers start where their auto.offset.reset says: earliest delivers the whole log again, "
        f"latest passes over {count_of(pending.count, 'pending offset')}",
    )


def _check_adoption(seen: SeenPartition, request: EditRequest) -> None:
    reading = seen.reading
    if reading is None or request.allows.adopt:
        return
    if reading.problem in dialect_named(reading.dialect).newer_problems:
        raise RefusedError(
            f"{seen.partition}: the commit was written by a newer format ({reading.reason or reading.problem})",
            hint="use a newer kafkakit; --adopt writes over it, and forgets every acknowledgement in it",
        )


def _coarsened_text(
    seen: SeenPartition, observed: GroupObservation, written: EncodedMetadata, request: EditRequest
) -> str:
    lost = list(written.left_out)
    if written.forgotten:
        lost.insert(0, f"{count_of(written.forgotten, 'acknowledgement')} (those records are delivered again)")
    words = f"the state does not fit {observed.limit_chars} characters; left out: {', '.join(lost)}"
    if not request.allows.coarsen:
        raise RefusedError(f"{seen.partition}: {words}", hint="--allow-coarsening accepts that")
    return words


def _check_sound(seen: SeenPartition, aim: WantedState, meant: CommitState, found: CommitState) -> None:
    """What is to be written must say no more than was meant, and pass nothing that was not asked for."""
    surplus = all_done(found).minus(all_done(meant))
    passed = all_done(found).minus(_done_offsets(seen.state)).minus(aim.may_pass)
    if surplus or (passed and seen.state is not None):
        raise OperationFailedError(f"{seen.partition}: the payload would pass pending records; nothing was written")


def _check_in_log(seen: SeenPartition, found: CommitState, request: EditRequest) -> None:
    """What is done beyond the end of the log would be written again, and bound: records that come there are skipped."""
    if found.end > seen.span.end and not request.allows.outside_log:
        raise RefusedError(
            f"{seen.partition}: its commit marks offsets up to {found.end - 1} as done, but the log ends at "
            f"{seen.span.end}: it was copied here, or the log was cut",
            hint="records that are still to come would be skipped; "
            + ("reset" if found.base > seen.span.end else "translate --to plain, or reset,")
            + " drops what is done",
        )


def _unchanged_edit(seen: SeenPartition, aim: WantedState) -> PartitionEdit:
    return PartitionEdit(
        partition=seen.partition,
        topic_id=seen.identity.topic_id,
        before=seen.committed,
        after=seen.committed,
        dialect_before=seen.dialect,
        dialect_after=seen.dialect,
        state_before=seen.state,
        state_after=seen.state,
        notes=aim.notes,
    )


def _with_watermark(seen: SeenPartition, state: CommitState) -> CommitState:
    """The state with the record times that are known; no watermark rather than a guessed one."""
    before = seen.state or CommitState(base=state.base)
    old = before.watermark
    if state.watermark is not None or (old is None and not seen.time_at):
        return state
    oldest = seen.time_at.get(state.base)
    is_newest_done = old is not None and state.end >= before.end
    newest = old.newest_done_ms if old is not None and is_newest_done else seen.time_at.get(state.end - 1)
    if oldest is None or newest is None or state.base >= seen.span.end:
        return redate(state, before, None)
    return redate(state, before, Watermark(oldest_ms=oldest, newest_done_ms=newest))


def _unusable_warnings(seen: SeenPartition) -> tuple[str, ...]:
    reading = seen.reading
    if reading is None or reading.problem is None:
        return ()
    claimed = ""
    if reading.claimed is not None and reading.claimed.done:
        claimed = f"; what it claims done ({count_of(reading.claimed.done.count, 'offset')}) is not used"
    return (f"its present payload is not usable: {reading.problem}{claimed}",)


def _newly_bound(seen: SeenPartition, found: Reading) -> tuple[str, ...]:
    before = dialect_named(seen.dialect)
    if not before.counts_from_offset or not dialect_named(found.dialect).is_bound or not found.state.done:
        return ()
    return (f"a {before.noun} is bound to nothing: make sure that it was written here, and not copied",)


def _missed_warnings(request: EditRequest, aim: WantedState, found: CommitState) -> tuple[str, ...]:
    left = aim.may_pass.minus(all_done(found)) if isinstance(request.verb, Skip | Reject) else OffsetRanges()
    return (f"{ranges_text(left)}: stays pending, since not everything fits",) if left else ()


def _spilled_warnings(seen: SeenPartition) -> tuple[str, ...]:
    if seen.state is None or seen.state.spill is None:
        return ()
    return ("its pointer to the ledger is dropped: acknowledgements that only the ledger holds are forgotten",)


def _epoch(seen: SeenPartition, offset: int) -> int | None:
    """The leader epoch of the commit; known only for the offset it came with."""
    if seen.committed is None or seen.committed.offset != offset:
        return None
    return seen.committed.leader_epoch


def _done_offsets(state: CommitState | None) -> OffsetRanges:
    return OffsetRanges() if state is None else all_done(state)


def _held_offsets(offsets: OffsetRanges, seen: SeenPartition) -> OffsetRanges:
    return offsets.within(seen.span.start, seen.span.end)


def undo_plan(
    record: EditRecord, name: str, observed: GroupObservation, *, over_others: bool = False, outside_log: bool = False
) -> EditPlan:
    """Bring back every commit as it was before the edit, to the last character.

    Raises `RefusedError` where a commit is neither the edit's nor the one before it (`over_others` writes over it), or
    its topic was recreated, or the old offset is not in the log any more (`outside_log` restores it anyway).
    Commits of a topic that is gone went with it, and are left out.
    """
    edits = []
    for seen, change in _pairs(record, observed):
        if seen.identity.topic_id != change.topic_id:
            raise RefusedError(
                f"{seen.partition}: its topic was recreated since the edit", hint="the old offset is void: use reset"
            )
        if same_commit(seen.committed, change.old):
            edits.append(replace_commit(seen, seen.committed, "is as it was before the edit"))
            continue
        if not same_commit(seen.committed, change.new) and not over_others:
            raise RefusedError(
                f"{seen.partition}: its commit is not the one that the edit wrote ({_commit_text(seen.committed)})",
                hint="another process committed since; --even-if-changed restores the old one anyway",
            )
        old = change.old
        if old is not None and not seen.span.start <= old.offset <= seen.span.end and not outside_log:
            raise RefusedError(
                f"{seen.partition}: the old offset {old.offset} is outside of the log "
                f"({seen.span.start} to {seen.span.end})",
                hint="--allow-outside-log restores it anyway",
            )
        edits.append(replace_commit(seen, old))
    return _plan("undo", record, observed, edits, undoes=name)


def finish_plan(record: EditRecord, observed: GroupObservation) -> EditPlan:
    """Write what an interrupted edit did not get to write, and leave alone what is another process's by now.

    Every interrupted edit has its way to an end by this; one that ended is not made again (`RefusedError`).
    """
    edits = []
    for seen, change in _pairs(record, observed):
        if seen.identity.topic_id != change.topic_id:
            edits.append(_left_edit(seen, "its topic was recreated since the edit"))
        elif same_commit(seen.committed, change.new):
            edits.append(replace_commit(seen, seen.committed, "is written already"))
        elif same_commit(seen.committed, change.old):
            edits.append(replace_commit(seen, change.new))
        else:
            edits.append(_left_edit(seen, f"another process committed since the edit ({_commit_text(seen.committed)})"))
    plan = _plan(record.opening.verb, record, observed, edits, undoes=record.opening.undoes)
    if plan.changes and record.verdict not in (EditVerdict.OPEN, EditVerdict.INCOMPLETE):
        raise RefusedError(f"there is nothing to finish: {record.story}", hint="plan the edit again")
    return plan


def standings_after(plan: EditPlan, record: EditRecord) -> dict[TopicPartition, CommitStanding]:
    """What stands of an edit once the plan is carried out, by the plan alone; OTHER where it leaves a commit alone."""
    led = {edit.partition: edit for edit in plan.edits}
    return {
        key: CommitStanding.NEW
        if key in led and led[key].topic_id == change.topic_id and same_commit(led[key].after, change.new)
        else CommitStanding.OTHER
        for key, change in sorted(record.changes.items())
    }


def _pairs(record: EditRecord, observed: GroupObservation) -> list[tuple[SeenPartition, CommitChange]]:
    seen: Mapping[TopicPartition, SeenPartition] = {item.partition: item for item in observed.partitions}
    return [(seen[key], change) for key, change in sorted(record.changes.items()) if key in seen]


def _plan(
    verb: str, record: EditRecord, observed: GroupObservation, edits: list[PartitionEdit], undoes: str | None
) -> EditPlan:
    at: datetime = record.at
    words = [f"{record.opening.verb} of {at.isoformat(timespec='seconds')} by {record.opening.who}", record.story]
    seen = {item.partition for item in observed.partitions}
    words += [f"{key}: its topic is not there any more, left out" for key in sorted(record.changes) if key not in seen]
    return EditPlan(
        verb=verb,
        cluster_id=observed.cluster_id,
        group=record.opening.group,
        taken_at=observed.taken_at,
        limit_chars=observed.limit_chars,
        edits=tuple(edits),
        words=tuple(words),
        request_id=record.opening.request_id,
        undoes=undoes,
    )


def _left_edit(seen: SeenPartition, why: str) -> PartitionEdit:
    return replace(replace_commit(seen, seen.committed), warnings=(f"{why}: left as it is",))


def replace_commit(seen: SeenPartition, after: CommittedOffset | None, note: str = "") -> PartitionEdit:
    """The edit that puts another commit in the place of the one that was seen, None for none."""
    found = None if after is None else read_metadata(after.metadata, after.offset, seen.identity)
    was, becomes = _done_offsets(seen.state), _done_offsets(found.state if found else None)
    edit = PartitionEdit(
        partition=seen.partition,
        topic_id=seen.identity.topic_id,
        before=seen.committed,
        after=after,
        dialect_before=seen.dialect,
        dialect_after=_dialect(found),
        state_before=seen.state,
        state_after=found.state if found else None,
        notes=(note,) if note else (),
        is_gone=seen.is_gone,
    )
    return replace(
        edit,
        reopened=was.minus(becomes).within(seen.span.start, seen.span.end),
        passed=becomes.minus(was).within(seen.span.start, seen.span.end),
    )


def _dialect(reading: Reading | None) -> str:
    return WITHOUT_METADATA.name if reading is None else reading.dialect


def _commit_text(commit: CommittedOffset | None) -> str:
    return "there is none" if commit is None else f"it is at {commit.offset}"


QUIET = (GroupState.EMPTY, GroupState.DEAD)
MOST_NAMED = 3
LIVE_ANSWERS = {
    "NonEmptyGroupError": "the group has members",
    "GroupSubscribedToTopicError": "a member of the group is subscribed to the topic",
}
"""What the coordinator answers where a member joined after the group was described."""


def check_quiet(group: str, reported: GroupDescription | ItemError) -> GroupDescription:
    """The description of a group without members; raises `RefusedError` for a live one and for share groups, and
    `TryLaterError` or `OperationFailedError` where the coordinator gives no description."""
    described = check_keeps_commits(group, reported)
    if is_live(described):
        raise RefusedError(
            _live_words(described), hint="stop its members first; a live group would write over the edit"
        )
    return described


def check_removable(group: str, reported: GroupDescription | ItemError) -> GroupDescription:
    """The description of a group, of any protocol, that Kafka deletes: one without members; raises as `check_quiet`."""
    described = _require_described(group, reported)
    if is_live(described):
        raise RefusedError(
            _live_words(described), hint="stop its members first; Kafka deletes only groups without members"
        )
    return described


def check_left(group: str, reported: GroupDescription | ItemError, topics: Collection[str]) -> GroupDescription:
    """The description of a group whose commits for these topics may be deleted, even while it is live (KIP-496).

    Raises `RefusedError` if a member holds partitions of one of them. A member may be subscribed without holding any:
    only the coordinator knows, and refuses then.
    """
    described = check_keeps_commits(group, reported)
    for topic in sorted(topics):
        held_by = sorted(
            {
                sanitize(f"{member.client_id}{member.host}")
                for member in described.members
                if any(place.topic == topic for place in member.partitions)
            }
        )
        if held_by:
            raise RefusedError(
                f"{_live_words(described)} and reads topic {sanitize(topic)} (assigned to {few_of(held_by)})",
                hint="stop its members first, or have them subscribe to other topics",
            )
    return described


def check_keeps_commits(group: str, reported: GroupDescription | ItemError) -> GroupDescription:
    """The description of a group that keeps commits, live or not; raises as `check_quiet` otherwise."""
    described = _require_described(group, reported)
    if described.type is GroupType.SHARE:
        raise RefusedError(
            f"group {shown_name(group)} is a share group: brokers keep its state, not commits",
            hint="delete its state for one topic with Kafka's kafka-share-groups.sh --delete-offsets --topic; "
            "commits delete --all deletes the group without members",
        )
    return described


def is_live(described: GroupDescription) -> bool:
    """The group has members, or is about to."""
    return bool(described.members) or described.state not in QUIET


def _require_described(group: str, reported: GroupDescription | ItemError) -> GroupDescription:
    if isinstance(reported, ItemError):
        words = f"group {shown_name(group)} cannot be described: {reported}"
        raise TryLaterError(words) if reported.retriable else OperationFailedError(words)
    return reported


def _live_words(described: GroupDescription) -> str:
    clients = sorted({sanitize(f"{member.client_id}{member.host}") for member in described.members})
    named = f": {', '.join(clients[:MOST_NAMED])}" if clients else ""
    members = count_of(len(described.members), "member")
    return f"group {shown_name(described.group)} is live ({described.state}, {members}{named})"


def refusal_words(error: ItemError) -> str:
    """A coordinator's refusal to delete, with what to do about it."""
    reason = LIVE_ANSWERS.get(error.name)
    if error.name == "UnknownTopicOrPartitionError":
        return f"{error}: brokers delete commits only for partitions that exist"
    return str(error) if reason is None else f"{error}: {reason}; stop the members first"


def require_settled(
    group: str, reported: Mapping[TopicPartition, CommittedOffset | ItemError]
) -> dict[TopicPartition, CommittedOffset]:
    """The commits of a group; raises `TryLaterError` while one of them is in an open transaction or unreadable, and
    `OperationFailedError` where waiting does not help."""
    errors = {key: answer for key, answer in sorted(reported.items()) if isinstance(answer, ItemError)}
    if errors:
        key, error = next(iter(errors.items()))
        in_transaction = is_unstable(error)
        reason = "is in an open transaction" if in_transaction else f"cannot be read: {error}"
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        kind = TryLaterError if error.retriable or in_transaction else OperationFailedError
        raise kind(f"the commit of group {shown_name(group)} for {key}{more} {reason}", hint="nothing was changed")
    return {key: answer for key, answer in sorted(reported.items()) if not isinstance(answer, ItemError)}
