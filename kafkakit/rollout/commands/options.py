"""The options of `kafkakit config`, and what the commands make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.cluster_words import BROKER_CHOICE, TOPIC_CHOICE
from kafkakit.cli.option_groups import option
from kafkakit.cli.tag_options import NO_TAGS, TagSource
from kafkakit.core.errors import UsageError
from kafkakit.rollout.decide.steps import StepSize

if TYPE_CHECKING:
    from kafkakit.cli.context import CliContext
    from kafkakit.cli.session import ClusterSession
    from kafkakit.lint.api import FileReading, LintRequest, Pieces
    from kafkakit.ports.clock import Clock
    from kafkakit.rollout.act.planning import PlanTask
    from kafkakit.rollout.decide.difference import ConfigSide
    from kafkakit.rollout.decide.plan import ConfigPlan

RunName = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="The rollout, as `config history` names it.", show_default=False),
]
PlanPath = Annotated[str, typer.Argument(metavar="PLAN", help="Plan file of `config plan`; - for stdin.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """What is to be changed, and where."""

    topics: list[str] | None = option(
        None, "--topics", "--topic", **TOPIC_CHOICE, help="Set the values on these topics. Repeatable."
    )
    brokers: list[str] | None = option(
        None, "--brokers", "--broker", **BROKER_CHOICE, help="Set them on these brokers, each by itself. Repeatable."
    )
    all_brokers: bool = option(False, "--all-brokers", help="Set them on each broker.")
    cluster_default: bool = option(False, "--cluster-default", help="Set them as the default of all brokers.")
    delete: list[str] | None = option(
        None, "--delete", metavar="KEY", help="Remove the value of this key there. Repeatable."
    )
    file: list[str] | None = option(
        None, "--file", metavar="PATH", help="Set what this file or folder declares; the kinds that lint reads. "
        "Repeatable.",
    )  # fmt: skip
    cluster_name: str | None = option(
        None, "--cluster-name", metavar="NAME", help="Which cluster of the files or findings it is."
    )
    finding: list[str] | None = option(
        None, "--finding", metavar="RULE|FINGERPRINT", help="Set what ends these findings of lint. Repeatable."
    )
    findings: Path | None = option(
        None, "--findings", metavar="FILE", help="Take the findings from this file of `lint -o json` or an audit's."
    )
    tags: TagSource = NO_TAGS

    def task(self, cli: CliContext, clock: Clock, words: list[str], size: StepSize) -> PlanTask:
        """What is asked for, with the files read; `UsageError` for a file that cannot be used."""
        from kafkakit.rollout.act.planning import NamedPlaces, PlanTask
        from kafkakit.rollout.decide.wanted import FINDINGS_LIMIT_BYTES
        from kafkakit.wiring import read_input

        core, every = _rules(clock)
        found = None
        if self.findings is not None:
            found = (str(self.findings), read_input(self.findings, FINDINGS_LIMIT_BYTES))
        return PlanTask(
            words=tuple(words),
            deleted=tuple(self.delete or ()),
            places=NamedPlaces(
                topics=tuple(self.topics or ()),
                brokers=tuple(self.brokers or ()),
                all_brokers=self.all_brokers,
                cluster_default=self.cluster_default,
            ),
            files=pieces_of(self.file or []),
            cluster_name=self.cluster_name,
            findings=tuple(self.finding or ()),
            findings_file=found,
            size=size,
            request=self._recorded(words, size),
            profile=cli.settings.profile,
            core=core,
            every=every,
        )

    def _recorded(self, words: list[str], size: StepSize) -> dict[str, str]:
        given = {
            "command": "config plan",
            "values": " ".join(words),
            "topics": ",".join(self.topics or ()),
            "brokers": ",".join(self.brokers or ()),
            "all-brokers": "true" if self.all_brokers else "",
            "cluster-default": "true" if self.cluster_default else "",
            "delete": ",".join(self.delete or ()),
            "file": ",".join(self.file or ()),
            "finding": ",".join(self.finding or ()),
            "findings": str(self.findings or ""),
            "steps": size.value,
        }
        return {name: value for name, value in given.items() if value}


@contextmanager
def open_mirror(cli: CliContext, profile: str, *, read_only: bool = False) -> Iterator[ClusterSession]:
    """A session on the cluster of another profile."""
    from kafkakit.cli.session import open_session

    with open_session(cli, read_only=read_only, settings=cli.load_settings(profile)) as session:
        yield session


def read_plan(path: str) -> ConfigPlan:
    """The plan in a file, - for stdin; `InputError` for one that is not sound."""
    from kafkakit.rollout.decide.plan import LIMIT_BYTES, decode_config_plan
    from kafkakit.wiring import read_input

    return decode_config_plan(read_input(path, LIMIT_BYTES), path)


def pieces_of(paths: list[str]) -> tuple[Pieces, ...]:
    """What files declare; `UsageError` for a path that is not there or holds nothing that lint knows."""
    from kafkakit.lint.api_act import read_files
    from kafkakit.wiring import read_input

    if not paths:
        return ()
    readings: tuple[FileReading, ...] = read_files(paths, None, "stdin", read_input)
    broken = [p for r in readings for p in r.pieces.problems if p.rule in ("KKL001", "KKL007")]
    if broken or not readings:
        said = f"{broken[0].place.path}: {broken[0].message}" if broken else f"{paths[0]} holds no file that lint reads"
        raise UsageError(said, hint="docs/lint.md lists the kinds of files")
    return tuple(reading.pieces for reading in readings)


def side_of(cli: CliContext, session: ClusterSession, text: str) -> ConfigSide:
    """One side of a comparison: `live`, `profile:NAME`, `time:ISO`, or a path. Raises `UsageError`."""
    from kafkakit.rollout.act.journals import RolloutJournals
    from kafkakit.rollout.act.reading import read_configs
    from kafkakit.rollout.decide.difference import at_time, side_of_cluster, side_of_files

    kind, _, rest = text.partition(":")
    if kind == "profile":
        if not rest:
            raise UsageError("profile: names no profile", hint="write profile:NAME")
        with open_mirror(cli, rest) as other:
            return side_of_cluster(f"profile {rest}", read_configs(other.admin, other.clock))
    if text != "live" and kind != "time":
        return side_of_files(text, pieces_of([text]))
    live = side_of_cluster(f"cluster {session.cluster_id}", read_configs(session.admin, session.clock))
    if kind != "time":
        return live
    try:
        moment = datetime.fromisoformat(rest)
    except ValueError:
        raise UsageError(f"{rest!r:.60} is no time", hint="write time:2026-11-24T01:30:00Z") from None
    moment = moment if moment.tzinfo is not None else moment.astimezone()
    states = RolloutJournals(session.settings.state_dir, session.cluster_id, session.clock).states()
    writes = [write for _, state in states for write in state.writes]
    return at_time(live, writes, moment, f"{live.name} at {moment.isoformat()}")


def _rules(clock: Clock) -> tuple[LintRequest, LintRequest]:
    """The usual rules, and all of them."""
    from kafkakit.lint.api import RuleSet, RunOptions, lint_request
    from kafkakit.lint.api_act import read_config
    from kafkakit.wiring import read_input

    config, today = read_config(None, read_input), clock.now().date()
    make: Callable[[RuleSet], LintRequest] = lambda rules: lint_request(  # noqa: E731
        RunOptions(today=today, rule_set=rules), config, None, ""
    )
    return make(RuleSet.CORE), make(RuleSet.STRICT)
