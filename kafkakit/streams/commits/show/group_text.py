"""A look at a group as text, rows and JSON fields."""

from kafkakit.core.findings import Severity
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.report.report import Report
from kafkakit.streams.commits.decide.assembly import is_unstable
from kafkakit.streams.commits.decide.group_look import GroupLook
from kafkakit.streams.commits.decide.hazards.every import hazards_of
from kafkakit.streams.commits.show.commit_text import commit_text
from kafkakit.streams.commits.show.data import commit_data
from kafkakit.streams.commits.show.drawing import DrawingStyle
from kafkakit.streams.commits.show.table import COMMIT_COLUMNS, commit_row, commit_table
from kafkakit.streams.model.commit import utc_text
from kafkakit.streams.model.dialects.dialect import CommitFacts

IN_FULL = 8  # commits that are told in full beside the table
TABLE_ROWS = 60


def group_text(look: GroupLook, *, width: int, style: DrawingStyle) -> str:
    """A single commit in full; several as a table, and in full those that hold more than an offset or a hazard."""
    lines = [_head(look)]
    if len(look.commits) == 1:
        lines += ["", commit_text(look.commits[0], width=width, style=style).rstrip("\n")]
    elif look.commits:
        shown = sorted(look.commits, key=_interest)[:TABLE_ROWS]
        lines += ["", commit_table(sorted(shown, key=lambda facts: facts.key or ("", 0)))]
        if len(look.commits) > TABLE_ROWS:
            lines.append(f"and {counted(len(look.commits) - TABLE_ROWS, 'more commit')}: see -o tsv, or name a topic")
        full = [facts for facts in sorted(look.commits, key=_interest) if _interest(facts)[0] < 2]
        for facts in full[:IN_FULL]:
            lines += ["", commit_text(facts, width=width, style=style).rstrip("\n")]
        if len(full) > IN_FULL:
            lines += ["", f"and {len(full) - IN_FULL} more that hold something: name one with --topic and --partition"]
    lines += [
        f"pending: {key}: a transaction that commits offsets is open, and there is no commit before it"
        if is_unstable(error)
        else f"cannot be read: {key}: {error}"
        for key, error in sorted(look.refused.items())
    ]
    lines += [f"note: {printable(note)}" for note in look.notes]
    return "\n".join(lines) + "\n"


def group_report(verb: str, look: GroupLook, *, columns: int, style: DrawingStyle) -> Report:
    """A look at a group as the result of a command; `columns` is the width to draw in."""
    return Report(
        command=f"streams commits {verb}",
        data=group_data(look),
        text=group_text(look, width=columns, style=style),
        columns=COMMIT_COLUMNS,
        rows=tuple(commit_row(facts) for facts in look.commits),
    )


def screen_text(look: GroupLook, *, rows: int) -> str:
    """The head and the table, for a screen of so many rows."""
    shown = sorted(look.commits, key=_interest)[: max(1, rows - 4)]
    table = commit_table(sorted(shown, key=lambda facts: facts.key or ("", 0))) if shown else "no commits"
    return f"{_head(look)}\n\n{table}\n"


def group_data(look: GroupLook) -> dict[str, object]:
    """The look as JSON fields."""
    return {
        "group": look.group,
        "cluster_id": look.cluster_id,
        "at": utc_text(look.at_ms),
        "type": look.type,
        "state": look.state,
        "members": [
            {"member_id": m.member_id, "client_id": m.client_id, "host": m.host, "partitions": len(m.partitions)}
            for m in look.members
        ],
        "limit_chars": look.limits.strictest,
        "limit_known": look.limits.is_known,
        "commits": [commit_data(facts) for facts in look.commits],
        "refused": [
            {"topic": key.topic, "partition": key.partition, "error": str(error)}
            for key, error in sorted(look.refused.items())
        ],
        "notes": list(look.notes),
    }


def _head(look: GroupLook) -> str:
    members = counted(len(look.members), "member")
    return (
        f"group {printable(look.group)} ({look.type.value}, {look.state.value}, {members}) "
        f"of cluster {look.cluster_id}, at {utc_text(look.at_ms)}: {counted(len(look.commits), 'commit')}"
    )


def _interest(facts: CommitFacts) -> tuple[int, str, int]:
    """Commits to tell first: hazards, then holes, then the rest, each by partition."""
    worst = min((list(Severity).index(hazard.severity) for hazard in hazards_of(facts)), default=9)
    rank = 0 if worst < 2 else 1 if facts.state.done or facts.reading.problem else 2
    topic, partition = facts.key or ("", 0)
    return rank, topic, partition
