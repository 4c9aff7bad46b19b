"""What the operator asked `topicmappr check` for, and its rules: names, severities and what each one says."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import floor

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Finding, Rule, Severity
from kafkakit.core.options import not_typed, option, parsed_option
from kafkakit.core.quantities import parse_percent, percent_word
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import OptionValue, ShellCommand, few_of, shell_command
from kafkakit.topicmappr.decide.request_fields import (
    RACKS_HELP,
    TopicsRequest,
    brokers_option,
    disk_use_option,
    topics_option,
)
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, TagConstraints

MAX_REPLICATION = 32_767
ALL = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(TopicsRequest):
    """The rules to hold a cluster against.

    No `topics` means all; no `brokers` means all live ones. `band`, `leader_band` and `max_disk_use` are parts
    of one. `program` is how kafkakit is called, `snapshot` the file that is judged, for the commands of hints.
    """

    topics: tuple[str, ...] = topics_option("", "--topics", "Topics to check; all when not given.")
    brokers: BrokerList | None = brokers_option(
        "--brokers", "Brokers that should hold the replicas; all live ones when not given."
    )
    replication: int = option(0, "--replication", help="Replicas that every partition must have; 0: not checked.")
    min_rack_ids: int = option(0, "--min-rack-ids", help=RACKS_HELP)
    band: Fraction = parsed_option(
        "10%",
        "--band",
        parse=lambda text: parse_percent(text, "--band"),
        metavar="PERCENT",
        help="How far a broker or log dir may be from its share of used space.",
    )
    leader_band: Fraction = parsed_option(
        "10%",
        "--leader-band",
        parse=lambda text: parse_percent(text, "--leader-band"),
        metavar="PERCENT",
        help="How far a broker may be from an even share of preferred leaders.",
    )
    max_disk_use: Fraction = disk_use_option("How full a disk may be.", "85%")
    constraints: TagConstraints = NO_CONSTRAINTS
    program: str = not_typed("kafkakit")
    snapshot: str = not_typed("")

    @property
    def topic_words(self) -> str:
        """The topics as given, for the commands that hints name."""
        return self.words.get("topics") or ",".join(self.topics) or ALL

    @property
    def topics_exclude_words(self) -> str:
        """The topics that are left out, as given."""
        return self.words.get("topics-exclude") or ",".join(self.topics_exclude)

    def __post_init__(self) -> None:
        if not 0 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"--replication: {self.replication} is not between 0 and {MAX_REPLICATION}")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")

    def require_broker(self, known: Collection[int]) -> None:
        """Raise `UsageError` if no broker that is named exists; one of several that does not is a finding."""
        asked = self.brokers
        named = set(asked.ids) if asked is not None and not (asked.existing or asked.everything) else set()
        if named and not named & set(known):
            words = f"broker {few_of(sorted(named))} is not in this cluster"
            raise UsageError(words, hint=f"its brokers are {few_of(sorted(known))}")


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
RULES = (
    Rule("replica-list", _E, "a replica list names each broker once, at least one, and only known brokers"),
    Rule("dead-broker", _E, "every broker that holds replicas is alive"),
    Rule("no-live-copy", _E, "every partition has a live copy in sync"),
    Rule("below-min-isr", _E, "every partition has at least min.insync.replicas live copies in sync"),
    Rule("low-replication", _E, "every partition has the replicas that --replication asks for"),
    Rule("high-replication", _W, "no partition has more replicas than --replication asks for"),
    Rule("uneven-replication", _W, "without --replication: all partitions of a topic have equally many replicas"),
    Rule("rack-rule", _E, "replicas of a partition are on different racks, or on --min-rack-ids of them"),
    Rule("constraint", _E, "replicas are where --spread-by, --affinity, --anti-affinity and broker sets let them be"),
    Rule("disk-use", _E, "no disk is fuller than --max-disk-use"),
    Rule("failed-dir", _E, "every log dir works"),
    Rule("under-replicated", _W, "every replica is in sync"),
    Rule("rack-spread", _W, "replicas of a partition are spread evenly over racks"),
    Rule("rackless-broker", _W, "all brokers have a rack, or none has"),
    Rule("broker-set", _W, "replicas are on --brokers only"),
    Rule("broker-share", _W, "every broker holds its share of the used space, within --band"),
    Rule("dir-share", _W, "every log dir holds its share of its broker's bytes, within --band"),
    Rule("cordoned-dir", _W, "no cordoned log dir holds replicas"),
    Rule("leader-share", _W, "every broker is preferred leader equally often, within --leader-band"),
    Rule("unknown-size", _W, "the size of every replica and every disk is known"),
    Rule("preferred-leader", _N, "the first replica leads if it is alive and in sync"),
    Rule("moving", _N, "no reassignment is running"),
)
CHECK_RULES = {rule.name: rule for rule in RULES}
UNCHECKED_FOR = {
    "low-replication": "needs --replication",
    "high-replication": "needs --replication",
    "broker-set": "needs --brokers",
    "broker-share": "needs disk sizes",
    "disk-use": "needs disk sizes",
    "dir-share": "needs brokers with several log dirs",
    "failed-dir": "needs log dirs",
    "cordoned-dir": "needs log dirs",
    "below-min-isr": "needs ISRs",
    "under-replicated": "needs ISRs",
    "preferred-leader": "needs leaders",
    "rack-rule": "needs racks",
    "rack-spread": "needs racks",
}
"""What a rule that was not checked lacked."""


def make_finding(
    rule: str, where: str, message: str, hint: str, count: int = 1, subjects: tuple[str, ...] = ()
) -> Finding:
    """A finding of a rule of this catalogue."""
    return CHECK_RULES[rule].finding(where, message, hint, count, subjects)


@dataclass(frozen=True, slots=True)
class Hints:
    """The commands that repair things, for this run: same profile, snapshot and exclusions.

    Those that are about topics take the names that the finding is about; without any, the topics as given. Findings
    about the use of a broker or log dir count all topics, so their commands may move any but those left out.
    No command names a broker that is not in `live`. `before_balance` are what a rebalance is refused for now.
    """

    request: CheckRequest
    live: Collection[int]
    before_balance: tuple[str, ...] = ()

    def fix_racks(self, *topics: str, spread: bool = False) -> ShellCommand:
        """Bring replica sets back under the rack rule, or spread them evenly over racks: that is a rule of its own."""
        racks = None if spread else self.request.min_rack_ids or None
        return self._planning("topicmappr fix-racks", topics, spread=spread, min_rack_ids=racks)

    def fix_constraints(self, *topics: str) -> ShellCommand:
        """Move replicas to where the constraints let them be, without breaking the rack rule."""
        return self._constrained(self.fix_racks(*topics))

    def rebalance(self, max_disk_use: Fraction | None = None) -> ShellCommand:
        """Bring brokers into their band, and below a disk use."""
        return self._constrained(
            self._planning(
                "topicmappr rebalance",
                (ALL,),
                brokers=self._brokers(),
                band=percent_word(self.request.band),
                max_disk_use=percent_word(max_disk_use) if max_disk_use is not None else None,
                min_rack_ids=self.request.min_rack_ids or None,
            )
        )

    def level_dirs(self, broker: int, band: Fraction | None = None) -> ShellCommand:
        """Bring the log dirs of a broker into their band, or into a narrower one."""
        shown = percent_word(self.request.band if band is None else band)
        return self._planning("topicmappr rebalance-dirs", (ALL,), brokers=broker, band=shown)

    def leaders(self, *topics: str) -> ShellCommand:
        """Spread first replicas evenly."""
        return self._planning("topicmappr leaders", topics)

    def elect(self, brokers: Sequence[int]) -> str:
        """Let brokers lead where they are the first replica, in all topics."""
        made = shell_command("broker rejoin", ",".join(map(str, brokers)), program=self.request.program)
        return f"every leadership of broker {few_of(brokers)} returns, also of other topics: {made}"

    def balance(self, max_disk_use: Fraction | None = None) -> str:
        """The rebalance, after what it is refused for."""
        made = str(self.rebalance(max_disk_use))
        return f"{', '.join(self.before_balance)}, then: {made}" if self.before_balance else made

    def make_room(self, broker: int, within: Fraction, across: Fraction) -> str:
        """Bring a disk below the highest use: `within` is the use of the broker, `across` of all brokers."""
        limit = self.request.max_disk_use
        if within < limit:
            room = Fraction(floor((limit / within - 1) * 100), 100) if within else self.request.band
            return str(self.level_dirs(broker, min(self.request.band, room)))
        if across < limit:
            return self.balance(limit)
        full = "all disks together are as full: add brokers or shorten retention"
        return f"{', '.join((full, *self.before_balance))}, then: {self.rebalance(limit)}"

    def read_again(self) -> str:
        """Take a snapshot anew that has what no cluster has: somebody changed it, or it was cut."""
        return f"no cluster has such a list; take the snapshot again: {self.snapshot()}"

    def replicate(self, factor: int, *topics: str) -> ShellCommand:
        """Give every partition so many replicas."""
        racks = self.request.min_rack_ids or None
        made = self._planning("topicmappr set-replication", topics, str(factor), min_rack_ids=racks)
        return self._constrained(made)

    def meet_min_isr(self, least: int) -> "HandRepair":
        """What ends that a topic has fewer replicas than its `min.insync.replicas`, for each topic."""
        lower = "lower min.insync.replicas of the topic to its number of replicas"
        if least > len(self.live):
            return HandRepair(lower, self.check)
        return HandRepair(f"{lower}; to raise that instead of it", partial(self.replicate, least))

    def drain(self, broker: int) -> ShellCommand:
        """Move everything off a broker."""
        racks = self.request.min_rack_ids or None
        return self._constrained(self._planning("topicmappr drain", (), brokers=broker, min_rack_ids=racks))

    def empty_dir(self, broker: int, path: str) -> ShellCommand:
        """Move everything out of a log dir."""
        racks = self.request.min_rack_ids or None
        made = self._planning("topicmappr drain", (ALL,), brokers=broker, log_dir=path, min_rack_ids=racks)
        return self._constrained(made)

    def repair(self, broker: int) -> ShellCommand:
        """Replace what is offline on a broker, and leave its other replicas."""
        racks = self.request.min_rack_ids or None
        return self._constrained(self._planning("topicmappr repair", (ALL,), brokers=broker, min_rack_ids=racks))

    def onto(self, *topics: str) -> ShellCommand:
        """Move replicas onto the wanted brokers."""
        racks = self.request.min_rack_ids or None
        made = self._planning("topicmappr rebuild", topics, brokers=self._brokers(), min_rack_ids=racks)
        return self._constrained(made)

    def snapshot(self) -> ShellCommand:
        """Take a snapshot with sizes."""
        return shell_command("snapshot", program=self.request.program, output_file="snapshot.json")

    def watch(self) -> ShellCommand:
        """Wait for running moves."""
        return shell_command("reassign status", program=self.request.program, watch=True)

    def check(self, *topics: str, brokers: str = "", min_rack_ids: int | None = None) -> ShellCommand:
        """Run this check again, of some topics or brokers, or under another rule of racks."""
        return self._planning("topicmappr check", topics, brokers=brokers, min_rack_ids=min_rack_ids)

    def _planning(self, verb: str, topics: Sequence[str], *arguments: str, **options: OptionValue) -> ShellCommand:
        r = self.request
        return shell_command(
            verb,
            *arguments,
            program=r.program,
            topics=topic_list(topics) or r.topic_words,
            topics_exclude="" if topics and topics != (ALL,) else r.topics_exclude_words,
            **options,
            snapshot=r.snapshot,
        )

    def _constrained(self, made: ShellCommand) -> ShellCommand:
        """The command under the constraints by tags that the check was given."""
        return replace(made, options=(*made.options, *self.request.constraints.given))

    def _brokers(self) -> str:
        given = self.request.brokers
        if given is None:
            return "-2"
        if given.text:
            return given.text
        named = [
            *(str(b) for b in given.ids if b in self.live),
            *(["-1"] if given.existing else []),
            *(["-2"] if given.everything else []),
        ]
        return ",".join(named) or "-2"


def topic_list(names: Sequence[str]) -> str:
    """Existing topics for `--topics`: a name that exists is that topic, whatever it would mean as a pattern."""
    return ",".join(names)


@dataclass(frozen=True, slots=True)
class HandRepair:
    """What to do by hand, and the command of a topic that follows."""

    first: str
    command: Callable[[str], ShellCommand]

    def __call__(self, topic: str) -> str:
        """Both in words."""
        return f"{self.first}, then: {self.command(topic)}"
