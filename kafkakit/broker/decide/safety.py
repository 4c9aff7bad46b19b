"""May a broker be stopped for good? What speaks against it, what to think of, and the last steps by hand."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkakit.broker.decide.holdings import Holdings
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.shell_words import quote

ROLES = "process.roles"
ZOOKEEPER = "zookeeper.connect"
FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
SETTING_KEYS = (ROLES, ZOOKEEPER, *FACTORS)

IN_BOTH = "broker,controller"
"""The roles of a node that is a broker and a controller."""

Settings = Mapping[int, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """`problems` forbid stopping the brokers, `cautions` are worth a thought, `steps` are what is left to do by hand.

    A step is a sentence ending with a colon or full stop, or a command on a line of its own.
    """

    problems: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


def judge_safety(
    snapshot: ClusterSnapshot,
    brokers: Collection[int],
    holdings: Holdings,
    settings: Settings,
    bootstrap: str,
    again: str,
) -> Safety:
    """Judge whether the brokers may be stopped for good.

    `settings` are the values in force of the brokers that answered, for `SETTING_KEYS`. A broker that is down tells no
    role: then the steps ask for a look at the quorum. `again` is the command that unregisters stopped brokers.
    """
    ids = sorted(brokers)
    voters = voters_among(settings, ids)
    problems = []
    if holdings.held:
        problems.append(_on(holdings.held, "replica is", "replicas are", ids))
    if holdings.led:
        problems.append(_on(holdings.led, "leadership is", "leaderships are", ids))
    if voters:
        them = "it" if len(voters) == 1 else "them"
        problems.append(
            f"broker {some(voters)} is a controller, too: stopping {them} takes a vote out of the quorum; "
            "let other nodes be controllers first"
        )
    return Safety(
        problems=tuple(problems),
        cautions=_cautions(snapshot, ids, settings),
        steps=_steps(snapshot, ids, voters, settings, bootstrap, again),
    )


def voters_among(settings: Settings, brokers: Collection[int]) -> list[int]:
    """Those of the brokers that say they are controllers (KRaft's combined mode)."""
    return [b for b in sorted(brokers) if "controller" in settings.get(b, {}).get(ROLES, "")]


def with_votes(
    settings: Settings, brokers: Collection[int], voters: Collection[int] | None
) -> dict[int, dict[str, str]]:
    """The settings with the roles of silent brokers, as far as the quorum's voters show them (None: no quorum told)."""
    told = {b: dict(values) for b, values in settings.items()}
    if voters is None:
        return told
    for broker in brokers:
        known = told.setdefault(broker, {})
        known[ROLES] = known.get(ROLES) or (IN_BOTH if broker in voters else "broker")
    return told


def to_unregister(snapshot: ClusterSnapshot, brokers: Collection[int], settings: Settings) -> list[int]:
    """The brokers that are stopped, and known to be no controllers: KRaft may forget them."""
    known = snapshot.broker_by_id()
    stopped = [b for b in sorted(brokers) if b not in known or not known[b].is_alive]
    return [b for b in stopped if settings.get(b, {}).get(ROLES) == "broker"]


def _on(keys: tuple[TopicPartition, ...], one: str, many: str, brokers: list[int]) -> str:
    return f"{len(keys)} {one if len(keys) == 1 else many} still on broker {some(brokers)}: {some(keys)}"


def _cautions(snapshot: ClusterSnapshot, leaving: list[int], settings: Settings) -> tuple[str, ...]:
    """What the cluster cannot do any more once the brokers are gone."""
    staying = [b for b in snapshot.brokers if b.is_alive and b.id not in leaving]
    lines = []
    for key in FACTORS:
        wanted = max((int(v[key]) for v in settings.values() if v.get(key, "").isdigit()), default=0)
        if wanted > len(staying):
            lines.append(f"{key} is {wanted}, and {len(staying)} live brokers stay: such topics cannot be created")
    wide = [t.name for t in snapshot.topics if any(len(p.replicas) > len(staying) for p in t.partitions)]
    if wide:
        lines.append(f"more replicas than the {len(staying)} live brokers that stay: topic {some(wide)}")
    known = snapshot.broker_by_id()
    lost = {known[b].rack for b in leaving if b in known} - {b.rack for b in staying} - {None, ""}
    if lost:
        lines.append(f"no broker stays in rack {some(sorted(str(r) for r in lost))}")
    return tuple(lines)


def _steps(
    snapshot: ClusterSnapshot, ids: list[int], voters: list[int], settings: Settings, bootstrap: str, again: str
) -> tuple[str, ...]:
    known = snapshot.broker_by_id()
    at = f"--bootstrap-server {quote(bootstrap)}"
    quorum = f"bin/kafka-metadata-quorum.sh {at} describe --status"
    in_zookeeper = any(v.get(ZOOKEEPER) and not v.get(ROLES) for v in settings.values())
    steps: list[str] = []
    if voters:
        steps += ["Take it out of the quorum (its directory id is in `describe --replication`):", quorum]
    elif not in_zookeeper and any(not settings.get(b, {}).get(ROLES) for b in ids):
        steps += ["Its role is unknown (is it down?): make sure that CurrentVoters does not name it:", quorum]
    running = [known[b] for b in ids if b in known and known[b].is_alive]
    if running:
        where = some(f"{b.id} ({b.host})" if b.host else f"{b.id}" for b in running)
        steps.append(f"Stop the process of broker {where} and keep it from starting again.")
    if in_zookeeper:
        return tuple(steps)
    if running:
        steps += [
            "Then take it off the cluster's list; this does so once it is stopped:",
            again,
            "Or Kafka's own tool:",
        ]
    else:
        steps.append("Then take it off the cluster's list, with Kafka's own tool:")
    steps += [f"bin/kafka-cluster.sh unregister {at} --id {b}" for b in ids]
    return tuple(steps)
