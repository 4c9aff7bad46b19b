"""What the operator asked `topicmappr check` for, and its rules: names, severities and what each one says."""

from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Finding, Rule, Severity
from kafkakit.core.quantities import format_percent
from kafkakit.core.selection import BrokerList
from kafkakit.core.text import quote
from kafkakit.topicmappr.decide.scope import NO_CONSTRAINTS, TagConstraints

MAX_REPLICATION = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """The rules to hold a cluster against.

    No `topics` means all; no `brokers` means all live ones. `band`, `leader_band` and `max_disk_use` are parts
    of one. `program` is how kafkakit is called, `context` is put into the commands that hints name
    (` --snapshot prod.json`), `topic_words` are the topics as given.
    """

    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    brokers: BrokerList | None = None
    replication: int = 0
    min_rack_ids: int = 0
    band: Fraction = Fraction(1, 10)
    leader_band: Fraction = Fraction(1, 10)
    max_disk_use: Fraction = Fraction(85, 100)
    topic_words: str = ".*"
    constraints: TagConstraints = NO_CONSTRAINTS
    constraint_words: str = ""
    program: str = "kafkakit"
    context: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"--replication: {self.replication} is not between 0 and {MAX_REPLICATION}")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
RULES = (
    Rule("replica-list", _E, "a replica list names each broker once, at least one, and only known brokers"),
    Rule("dead-broker", _E, "every broker that holds replicas is alive"),
    Rule("no-live-copy", _E, "every partition has a live copy in sync"),
    Rule("below-min-isr", _E, "every partition has at least min.insync.replicas live copies in sync"),
    Rule("low-replication", _E, "every partition has the replicas that --replication asks for"),
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
    Rule("leader-share", _W, "every broker is first replica equally often, within --leader-band"),
    Rule("unknown-size", _W, "the size of every replica and every disk is known"),
    Rule("preferred-leader", _N, "the first replica leads where it is alive and in sync"),
    Rule("moving", _N, "no reassignment is running"),
)
CHECK_RULES = {rule.name: rule for rule in RULES}


def finding(rule: str, where: str, message: str, hint: str, count: int = 1, subjects: tuple[str, ...] = ()) -> Finding:
    """A finding of a rule of this catalogue."""
    return CHECK_RULES[rule].finding(where, message, hint, count, subjects)


@dataclass(frozen=True, slots=True)
class Hints:
    """The commands that repair things, for this run: same profile, snapshot and topics."""

    request: CheckRequest

    def fix_racks(self, *, spread: bool = False) -> str:
        """Bring replica sets back under the rack rule, or spread them evenly over racks."""
        racks = f" --min-rack-ids {self.request.min_rack_ids}" if self.request.min_rack_ids else ""
        return self._planning("fix-racks", f"{' --spread' if spread else ''}{racks}")

    def fix_constraints(self) -> str:
        """Move replicas to where the constraints let them be."""
        return self._planning("fix-racks", f" {self.request.constraint_words}")

    def rebalance(self) -> str:
        """Bring brokers into their band."""
        return self._planning("rebalance", f" --brokers {self._brokers()} --band {format_percent(self.request.band)}")

    def level_dirs(self, broker: int) -> str:
        """Bring the log dirs of a broker into their band."""
        return self._planning("rebalance-dirs", f" --brokers {broker} --band {format_percent(self.request.band)}")

    def leaders(self) -> str:
        """Spread leaders, and let the first replicas lead."""
        return self._planning("leaders", "")

    def replicate(self) -> str:
        """Give every partition the wanted number of replicas."""
        return self._planning(f"set-replication {self.request.replication or 'N'}", "")

    def drain(self, broker: int) -> str:
        """Move everything off a broker."""
        return self._planning("drain", f" --brokers {broker}")

    def onto(self) -> str:
        """Move replicas onto the wanted brokers."""
        return self._planning("rebuild", f" --brokers {self._brokers()}")

    def snapshot(self) -> str:
        """Take a snapshot with sizes."""
        return f"{self.request.program} snapshot --output-file FILE"

    def watch(self) -> str:
        """Wait for running moves."""
        return f"{self.request.program} reassign status --watch"

    def check(self) -> str:
        """Run this check again."""
        return f"{self.request.program} topicmappr check"

    def _planning(self, verb: str, options: str) -> str:
        r = self.request
        return f"{r.program} topicmappr {verb} --topics {quote(r.topic_words)}{options}{r.context}"

    def _brokers(self) -> str:
        given = self.request.brokers
        if given is None:
            return "-2"
        return ",".join(
            [*map(str, given.ids), *(["-1"] if given.existing else []), *(["-2"] if given.everything else [])]
        )
