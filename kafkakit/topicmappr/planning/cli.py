"""What every planning command does around its decision: read the cluster, record the flags, name the next command."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.command import Kit
    from kafkakit.model import ClusterSnapshot
    from kafkakit.topicmappr.plan import Plan

SNAPSHOT_LIMIT = 2 << 30


def recorded(command: str, given: Mapping[str, object], names: Sequence[str]) -> dict[str, str]:
    """The flags that shape the plan, as given, for its record; empty ones left out."""
    words = {"command": command}
    for name in names:
        value = given[name]
        if value not in ("", None, 0, False):
            words[name.replace("_", "-")] = "true" if value is True else str(value)
    return words


def observe(kit: "Kit", path: Path | None) -> "ClusterSnapshot":
    """Read the cluster now, or the snapshot file at `path`."""
    from kafkakit.topicmappr.run import observe_file, observe_live
    from kafkakit.wiring import open_admin, read_input, system_clock

    if path is not None:
        return observe_file(read_input(path, SNAPSHOT_LIMIT), str(path))
    admin = open_admin(kit.settings, read_only=True)
    try:
        return observe_live(admin, system_clock())
    finally:
        admin.close()


def next_command(kit: "Kit", plan: "Plan", saved: str | None) -> str | None:
    """The command that carries a saved plan out; None when there is nothing to carry out."""
    from shlex import quote

    if not saved or not (plan.moves or plan.dir_moves):
        return None
    profile = kit.given.profile
    return f"kafkakit {f'--profile {quote(profile)} ' if profile else ''}reassign apply {quote(saved)}"
