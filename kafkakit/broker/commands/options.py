"""The options of commands of `kafkakit broker`; those of every run are in `cli/run_options.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import BROKER_ID, BROKER_IDS
from kafkakit.cli.option_groups import option
from kafkakit.placement.choices import PlaceBy

if TYPE_CHECKING:
    from kafkakit.broker.act.elections import Pace
    from kafkakit.broker.decide.plans import OperationGoal

MOST_BROKERS = 100

Ids = Annotated[str, typer.Argument(**BROKER_IDS, help="Brokers to empty; they may be dead.")]
Old = Annotated[str, typer.Argument(**BROKER_ID, help="The broker to replace; it may be dead.")]
New = Annotated[str, typer.Option("--with", **BROKER_ID, help="The broker that takes its place.")]
Comers = Annotated[str, typer.Argument(**BROKER_IDS, help="The brokers that came back.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """Where replicas of a broker may go, and whether an interrupted operation is planned again."""

    placement: PlaceBy | None = option(
        None, help="What to balance: free bytes, or counts; storage where all sizes are known, if not given."
    )
    min_rack_ids: int = option(
        0,
        min=0,
        help="Let racks repeat in a replica set once it spans this many; 0: every replica needs a rack of its own.",
    )
    replan: bool = option(
        False,
        "--replan",
        help="Cancel the running moves of an interrupted operation, or of its undoing, and plan the rest again.",
    )

    def replacement(self, old: str, new: str, throttle: str | None) -> OperationGoal:
        """What `replace` is to do; raises `UsageError`."""
        from kafkakit.broker.decide.plans import OperationGoal

        brokers = broker_ids(old, "OLD", most=1)
        words = {"placement": self.placement, "min-rack-ids": self.min_rack_ids, "with": new}
        return OperationGoal(
            brokers=brokers,
            onto=broker_ids(new, "--with", most=1)[0],
            placement=self.placement,
            min_rack_ids=self.min_rack_ids,
            words=_recorded("replace", brokers, throttle, words),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions(PlacementOptions):
    """As for a replacement, and which brokers may take the replicas."""

    to: str = option("", **BROKER_IDS, help="Brokers that may take the replicas; all other live ones if not given.")
    exclude_receivers: str = option("", **BROKER_IDS, help="Brokers that get no copies.")
    spread: bool = option(
        False, "--spread", help="Keep a partition's replicas per rack within one of each other instead."
    )
    ignore_warns: bool = option(False, "--ignore-warns", help="Move the other replicas although some cannot be moved.")

    def goal(self, verb: str, text: str, throttle: str | None) -> OperationGoal:
        """What `drain` or `decommission` is to do with the brokers listed in `text`; raises `UsageError`."""
        from kafkakit.broker.decide.plans import OperationGoal
        from kafkakit.core.broker_list import BrokerList

        def listed(given: str, flag: str) -> BrokerList | None:
            return BrokerList(ids=broker_ids(given, flag)) if given else None

        brokers = broker_ids(text, "ID")
        words = {
            "to": self.to,
            "exclude-receivers": self.exclude_receivers,
            "placement": self.placement,
            "min-rack-ids": self.min_rack_ids,
            "spread": self.spread,
            "ignore-warns": self.ignore_warns,
        }
        return OperationGoal(
            brokers=brokers,
            receiving=listed(self.to, "--to"),
            exclude_receivers=listed(self.exclude_receivers, "--exclude-receivers"),
            placement=self.placement,
            min_rack_ids=self.min_rack_ids,
            spread=self.spread,
            words=_recorded(verb, brokers, throttle, words),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RejoinOptions:
    """What is taken back, how long brokers may take, and how fast leaderships pass."""

    restore: str = option(
        "",
        metavar="RECORD",
        help="Undo the operation of this record, the file that `drain` printed at its end; `last`: the last one "
        "on exactly these brokers.",
    )
    wait: str = option("30m", metavar="DURATION", help="How long to wait for the brokers, and then for their copies.")
    leaders_at_once: int = option(50, min=1, max=5000, help="Leaderships that are moved at the same time.")
    leaders_pause: str = option(
        "1s", metavar="DURATION", help="How long to wait between such groups of leaderships; 0: not at all."
    )

    @property
    def wait_s(self) -> float:
        """Seconds; raises `UsageError`."""
        from kafkakit.core.durations import parse_duration

        return parse_duration(self.wait, "--wait")

    @property
    def pace(self) -> Pace:
        """The groups that leaderships pass in; raises `UsageError`."""
        from kafkakit.broker.act.elections import Pace
        from kafkakit.core.durations import parse_duration_or_zero

        return Pace(group=self.leaders_at_once, pause_s=parse_duration_or_zero(self.leaders_pause, "--leaders-pause"))


def _recorded(
    verb: str, brokers: tuple[int, ...], throttle: str | None, options: Mapping[str, str | int | None]
) -> dict[str, str]:
    """The words of an operation's record; options that are not given are left out."""
    given = {"throttle": throttle, **options}
    listed = ",".join(map(str, brokers))
    return {"command": f"broker {verb}", "brokers": listed, **{k: str(v) for k, v in given.items() if v}}


def broker_ids(text: str, flag: str, most: int = MOST_BROKERS) -> tuple[int, ...]:
    """Broker ids of a comma list, sorted; `UsageError` for anything else."""
    from kafkakit.core.broker_list import parse_broker_list
    from kafkakit.core.errors import UsageError

    listed = parse_broker_list(text, flag)
    if listed.where is not None:
        raise UsageError(f"{flag}: queries are not taken here", hint="give the ids of the brokers")
    if listed.existing or listed.everything:
        raise UsageError(f"{flag}: name the brokers, -1 and -2 mean many of them")
    if len(listed.ids) > most:
        raise UsageError(f"{flag}: {len(listed.ids)} brokers are named, at most {most} can be")
    return tuple(sorted(listed.ids))
