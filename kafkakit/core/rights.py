"""The least rights that each command needs on a cluster: the one table behind `docs/acl.md`, `doctor` and runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.model import OFFSETS_TOPIC

CONTROL_TOPIC = "__kafkakit_control"


class Resource(StrEnum):
    """What a right is granted on, as `docs/acl.md` names it."""

    CLUSTER = "cluster"
    TOPICS = "topics"
    GROUPS = "groups"
    OFFSETS = f"topic {OFFSETS_TOPIC}"
    CONTROL = f"topic {CONTROL_TOPIC}"


Rights = Mapping[Resource, frozenset[str]]
"""Operations by resource, as lower-case names of Kafka's AclOperation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRights:
    """Commands that need the same rights; without one of them they fail or show less, and no other one is needed."""

    name: str
    commands: tuple[str, ...]
    rights: Rights
    note: str = ""

    def __str__(self) -> str:
        return self.name


def _rights(**operations: str) -> Rights:
    return {Resource[name.upper()]: frozenset(text.split()) for name, text in operations.items()}


LOOK = CommandRights(
    name="snapshots and plans",
    commands=(
        "snapshot",
        "topicmappr",
        "metricsfetcher fetch",
        "broker restart-check",
        "broker restart-plan",
        "broker restart-gate",
    ),
    rights=_rights(cluster="describe", topics="describe describe_configs"),
    note="not with --snapshot, which needs no cluster; on all topics, since a plan that lacks one would be wrong; "
    "metricsfetcher --to topic:NAME also needs CREATE and WRITE on that topic, and show --from topic:NAME READ",
)
LIST = CommandRights(
    name="running moves",
    commands=("reassign list",),
    rights=_rights(cluster="describe", topics=""),
    note="DESCRIBE on the topics that move",
)
STATUS = CommandRights(
    name="progress of moves, all settings",
    commands=(
        "reassign status",
        "lint --live",
        "fleet collect --no-groups",
        "config plan",
        "config diff",
        "config watch",
    ),
    rights=_rights(cluster="describe describe_configs", topics="describe describe_configs"),
)
MOVE = CommandRights(
    name="moves without a throttle",
    commands=("reassign apply", "reassign resume", "reassign rollback", "reassign abort", "reassign verify"),
    rights=_rights(cluster="alter", topics="describe describe_configs"),
    note="abort, pause, continue and throttle of a run that is active need only its control store; "
    "verify needs DESCRIBE instead of ALTER",
)
THROTTLED = CommandRights(
    name="moves with a throttle",
    commands=("reassign apply --throttle", "reassign throttle", "autothrottle once", "autothrottle run"),
    rights=_rights(cluster="alter alter_configs", topics="describe alter_configs"),
)
BROKERS = CommandRights(
    name="emptying and refilling brokers",
    commands=("broker drain", "broker replace", "broker decommission", "broker rejoin"),
    rights=_rights(cluster="alter", topics="describe describe_configs"),
    note="with --throttle also what moves with a throttle need; decommission reads who is a controller with "
    "DESCRIBE_CONFIGS on the cluster",
)
CLEANUP = CommandRights(
    name="removal of throttles",
    commands=("reassign cleanup", "config apply", "config resume", "config abort", "config rollback"),
    rights=_rights(cluster="describe alter_configs", topics="describe alter_configs"),
    note="config apply and what follows it need them on all topics, which are watched, and its --dry-run asks brokers "
    "with them; --group needs DESCRIBE on the groups",
)
COMMITS = CommandRights(
    name="commits of groups",
    commands=("streams commits show", "streams commits explain", "streams commits verify", "streams commits limits"),
    rights=_rights(topics="describe", groups="describe"),
    note="limits of brokers are read with DESCRIBE_CONFIGS on the cluster, else Kafka's default is taken",
)
EDITS = CommandRights(
    name="changes of commits",
    commands=("streams commits reset", "streams commits skip", "streams commits undo", "streams commits finish"),
    rights=_rights(topics="read", groups="read"),
    note="so do translate, reject, unack and replay; a replay needs WRITE on the topic that it writes to; delete "
    "needs DELETE on groups",
)
RECORDS = CommandRights(
    name="records",
    commands=("streams records show", "streams bombs scan", "streams bombs watch", "streams bombs quarantine"),
    rights=_rights(topics="read"),
    note="quarantine --group needs what changes of commits need",
)
LAG = CommandRights(
    name="lag of groups",
    commands=("streams lag once", "streams lag check", "streams lag watch", "streams lag serve"),
    rights=_rights(topics="describe", offsets="read"),
    note="DESCRIBE on groups gives their members, READ on topics the time of the next record, DESCRIBE_CONFIGS on "
    "topics how soon retention deletes it; share-groups needs only DESCRIBE on groups and topics",
)
STREAMS = CommandRights(
    name="streams and their readers",
    commands=("streams show", "streams topology", "streams link", "streams lane remove", "streams delete"),
    rights=_rights(cluster="describe", topics="describe_configs describe", groups="describe"),
    note="on all groups, since a reader that is not seen does not keep a topic from being deleted; create and lane add "
    "need what plans need and CREATE on the topics, delete --topics needs DELETE on them; quotas of lanes need "
    "DESCRIBE_CONFIGS and ALTER_CONFIGS on the cluster",
)
FAILOVER = CommandRights(
    name="failover of streams",
    commands=(
        "streams failover run",
        "streams failover resume",
        "streams failover retire",
        "streams failover reclaim",
        "streams move",
        "streams repartition",
        "streams evacuate",
        "streams balance",
    ),
    rights=_rights(cluster="describe", topics="describe_configs read create delete", groups="read"),
    note="CREATE and READ of groups are for the target, DELETE for the old topics (reclaim) and the new topics of an "
    "abort; an ACL as fence needs ALTER on the cluster, a size limit ALTER_CONFIGS on the old topics, both DESCRIBE on "
    "transactional ids; an emergency needs nothing of the old cluster until it is reached again; plan, status, history "
    "and verify-drain change nothing; rehearse needs on topics that begin with kafkakit-rehearsal. of both clusters "
    "what run needs, WRITE and DELETE, and READ and DELETE on the group of that name",
)
REGISTRY = CommandRights(
    name="topics, brokers and tags of the registry",
    commands=("registry serve", "registry topics", "registry brokers", "registry tag", "registry apply"),
    rights=_rights(cluster="describe", topics="describe describe_configs"),
    note="so do untag, import-labels --apply, mappings, unmapped and cleanup; DESCRIBE_CONFIGS on the cluster gives "
    "the versions of brokers; serve also needs what it creates, deletes and translates for its callers; history and "
    "migrate need only the store of tags, translate-offsets READ on the topic ALIAS.checkpoints.internal; with "
    "--server no right on the cluster is needed",
)
REGISTRY_TOPICS = CommandRights(
    name="topics made and deleted by the registry",
    commands=("registry create", "registry delete"),
    rights=_rights(cluster="describe", topics="create delete describe_configs"),
    note="create needs DESCRIBE instead of DELETE, and CREATE on the cluster serves as well",
)
CONTROL = CommandRights(
    name="control store `kafka`",
    commands=("control_store: kafka",),
    rights=_rights(control="create read write describe_configs"),
    note="for every command that changes a cluster or asks a run; CREATE until the topic is there",
)
DUTIES = (
    *(LOOK, LIST, STATUS, MOVE, THROTTLED, BROKERS, CLEANUP, COMMITS, EDITS, LAG, RECORDS),
    *(STREAMS, FAILOVER, REGISTRY, REGISTRY_TOPICS, CONTROL),
)
DOCTOR = (LOOK, LIST, STATUS, MOVE, THROTTLED, BROKERS, CLEANUP)
"""The duties whose rights `doctor` can judge: those on the cluster and on topics."""

_IMPLIED = {"describe": ("read", "write", "delete", "alter"), "describe_configs": ("alter_configs",)}


def lacking_rights(needed: Collection[str], granted: Collection[str] | None) -> tuple[str, ...]:
    """The operations that are needed and not granted, sorted; none where the cluster does not tell (None).

    As Kafka's authorizer does, READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS DESCRIBE_CONFIGS.
    """
    if granted is None:
        return ()
    return tuple(sorted(n for n in needed if n not in granted and not set(_IMPLIED.get(n, ())) & set(granted)))


def lacking_on_topics(needed: Collection[str], topics: Mapping[str, Collection[str] | None]) -> dict[str, list[str]]:
    """The topics that each missing operation is missing on."""
    missing: dict[str, list[str]] = {}
    for topic in sorted(topics):
        for operation in lacking_rights(needed, topics[topic]):
            missing.setdefault(operation, []).append(topic)
    return missing
