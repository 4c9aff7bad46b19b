"""Members beside the lines of a view: columns of the table and of TSV, and data for JSON."""

from kafkakit.report.blocks import attributes
from kafkakit.streams.lag.decide.measure.figures import NOT_KNOWN
from kafkakit.streams.lag.decide.views.members import Readers
from kafkakit.streams.lag.decide.views.views import ViewLevel, ViewLine

NO_OWNER = "no owner"


def member_columns(level: ViewLevel) -> tuple[str, ...]:
    """The columns of the table."""
    return ("client", "host") if level is ViewLevel.PARTITION else ("members",)


def member_cells(line: ViewLine, readers: Readers) -> tuple[object, ...]:
    """The cells of a line; a partition that no member holds has no owner, members without partitions are counted."""
    found, owner = readers.of(line), readers.owner(line)
    if line.partition >= 0:
        if owner is None:
            return (NOT_KNOWN, "") if found is None else (NO_OWNER, "")
        return owner.client_id, owner.host
    if found is None:
        return (NOT_KNOWN,)
    idle = f" ({found.idle} idle)" if found.idle and not line.topic else ""
    return (f"{readers.count(line)}{idle}",)


def member_data(line: ViewLine, readers: Readers) -> dict[str, object]:
    """What a line has beside its figures; null where it is not known, or where no member holds the partition."""
    found, owner = readers.of(line), readers.owner(line)
    if line.partition >= 0:
        held = {} if owner is None else attributes(owner, "member_id client_id host")
        return {"described": found is not None, "member_id": None, "client_id": None, "host": None, **held}
    idle = None if found is None or line.topic else found.idle
    return {"described": found is not None, "members": readers.count(line), "idle_members": idle}


def readers_data(readers: Readers) -> dict[str, object]:
    """All groups with their members, and what is not known."""
    groups = [
        {"cluster": cluster, **attributes(one.group, "group type state coordinator members"), "idle_members": one.idle}
        for (cluster, _), one in readers.groups.items()
    ]
    return {"groups": groups, "member_notes": list(readers.notes)}
