"""What operators ask of collections and scans of log dirs.

Commands load this module before they know whether they will collect anything, so it needs little.
"""

from dataclasses import dataclass

from kafkakit.core.options import duration_option, not_typed, option, options_given, parsed_option, required_option


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """How many clusters are read at once, how long each may take, and whether complete ones are read again."""

    concurrency: int = option(8, "--concurrency", min=1, max=256, metavar="N", help="Read this many clusters at once.")
    cluster_timeout_s: float = duration_option("10m", "--cluster-timeout", help="Give up on a cluster after this long.")
    again: bool = option(False, "--again", help="Read clusters again whose snapshot of this date is complete.")
    given: tuple[tuple[str, str | None], ...] = options_given()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    """What to collect of each cluster for which date; `since_s` bounds how far back logs are read the first time."""

    snapshot_date: str = not_typed("")
    groups: bool = option(True, "--groups/--no-groups", help="Read consumer groups and what they committed.")
    commits: bool = option(
        False, "--commits", help="Read the history of commits from __consumer_offsets, and how far logs had grown."
    )
    records: tuple[str, ...] = parsed_option(
        "",
        "--records",
        parse=lambda text: tuple(name.strip() for name in text.split(",") if name.strip()),
        metavar="TOPIC,...",
        help="Read the records of these topics, to compare copies: ids, hashes of keys, checksums of values.",
        show_default=False,
    )
    since_s: float = duration_option(
        "7d", "--since", help="How far back logs are read if no earlier snapshot tells where to continue."
    )
    given: tuple[tuple[str, str | None], ...] = options_given()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Which folders to read, as whose: `broker` where `meta.properties` does not tell; in how many processes."""

    folders: tuple[str, ...] = not_typed(())
    cluster: str = required_option("--cluster", metavar="NAME", help="The cluster's name in the store.")
    snapshot_date: str = not_typed("")
    broker: int | None = option(
        None, "--broker", min=0, metavar="N", help="The broker's id, if no meta.properties tells it."
    )
    with_crc: bool = option(False, "--crc", help="Verify checksums, which reads every byte.")
    jobs: int = option(1, "--jobs", min=1, max=256, metavar="N", help="Number of reader processes.")
