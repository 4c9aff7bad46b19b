"""Who else moves replicas of a cluster, or restarts its brokers: Strimzi, Cruise Control, evictions of pods.

Read from what `kubectl get kafkarebalances,kafkas,pods -o json` prints, and from the answer of Cruise Control to
`/kafkacruisecontrol/state?substates=executor&json=true`. What is not known counts as busy, never as quiet. The other
way round, `strimzi_plan` makes what Strimzi accepts for brokers that are to go.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import InputError, TryLaterError, UsageError
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.core.text import few_of, kubectl_command, quote, sanitize
from kafkakit.kubernetes.objects import (
    MAX_OBJECTS_BYTES,
    KafkaRebalance,
    KubernetesObject,
    Pod,
    StrimziKafka,
    StrimziPodSet,
    read_objects,
)

CLUSTER_LABEL = "strimzi.io/cluster"
ROLL = "strimzi.io/manual-rolling-update"
APPROVAL, AUTO_APPROVAL = "strimzi.io/rebalance", "strimzi.io/rebalance-auto-approval"
TEMPLATE = "strimzi.io/rebalance-template"
REMOVED_IDS = "strimzi.io/remove-node-ids"
KUBECTL = "kubectl get kafkarebalances,kafkas,pods -n NAMESPACE -o json"
STALE_S = 300.0
"""The age of a file from which on it is warned of."""
IDLE = "NO_TASK_IN_PROGRESS"
MOST_BUSY = 100


class RebalanceState(StrEnum):
    """The states of a KafkaRebalance, as its conditions name them."""

    NEW = "New"
    PENDING = "PendingProposal"
    PROPOSED = "ProposalReady"
    REBALANCING = "Rebalancing"
    READY = "Ready"
    STOPPED = "Stopped"
    NOT_READY = "NotReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyOperator:
    """One of those that are at work: what it is, what it does, and how it is paused (a command, or words)."""

    what: str
    state: str
    pause: str

    @property
    def words(self) -> str:
        """It in words."""
        return f"{self.what} is {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFile:
    """What one file says; `cluster_ids` are those of its Kafkas, `seen` what was looked at, in words."""

    source: str
    busy: tuple[BusyOperator, ...] = ()
    notes: tuple[str, ...] = ()
    seen: str = ""
    age_s: float | None = None

    @property
    def age_words(self) -> str:
        """Its age, where it is known."""
        return "" if self.age_s is None else f", {format_rough_time(self.age_s)} old"

    @property
    def is_stale(self) -> bool:
        """It is too old to tell what is going on now."""
        return self.age_s is not None and self.age_s > STALE_S


class _Executor(msgspec.Struct, frozen=True):
    state: str


class _CruiseControl(msgspec.Struct, frozen=True):
    executor: _Executor | None = msgspec.field(default=None, name="ExecutorState")
    error: str | None = msgspec.field(default=None, name="errorMessage")
    version: int | None = None
    kind: str | None = None
    items: msgspec.Raw | None = None


def read_operators(
    data: bytes, source: str, cluster_id: str, cluster: str = "", age_s: float | None = None
) -> OperatorFile:
    """Judge one file; `cluster` names Strimzi's Kafka where the file has several.

    `InputError` for a file of something else; `UsageError` for one that holds several clusters of which none is known
    to be `cluster_id`, or only another one.
    """
    answer = _cruise_control(data, source)
    if answer is not None:
        at_work = () if answer.state == IDLE else (_of_cruise_control(answer.state),)
        return OperatorFile(source=source, busy=at_work, seen="the executor of Cruise Control", age_s=age_s)
    found = read_objects(data, source)
    kafkas, rebalances = found.of(StrimziKafka), found.of(KafkaRebalance)
    unknown = [each for each in found.passed if re.match(r"(KafkaRebalance|Kafka)( of kafka\.strimzi\.io|$)", each)]
    if not (kafkas or rebalances or unknown):
        raise InputError(source, "holds no KafkaRebalance, no Kafka and no answer of Cruise Control", hint=KUBECTL)
    name = _chosen_cluster(source, [*kafkas, *rebalances, *found.pods], kafkas, cluster_id, cluster)
    pods = [p for p in found.pods if p.owner is not None and _cluster_of(p) in (name, None)]
    sets = [s for s in found.of(StrimziPodSet) if _cluster_of(s) in (name, None)]
    mine = [r for r in rebalances if _cluster_of(r) in (name, None) and r.annotations.get(TEMPLATE) != "true"]
    busy = [
        *(_unread(each) for each in unknown),
        *filter(None, map(_of_rebalance, mine)),
        *(_of_auto_rebalance(k) for k in kafkas if k.name == name and _auto_state(k) not in ("", "Idle")),
        *filter(None, map(_of_pods, [*sets, *pods])),
    ]
    counts = count_of(len(mine), "KafkaRebalance"), count_of(len(kafkas), "Kafka"), count_of(len(pods), "pod")
    return OperatorFile(
        source=source,
        busy=tuple(busy[:MOST_BUSY]),
        notes=(*found.notes, *filter(None, map(_waiting_note, mine))),
        seen=", ".join(counts),
        age_s=age_s,
    )


def require_quiet(files: Sequence[OperatorFile], again: str = "") -> None:
    """Raise `TryLaterError` while somebody is at work: who, what, and how to pause it."""
    busy = [(each, file) for file in files for each in file.busy]
    if not busy:
        return
    first, file = busy[0]
    more = f", and {len(busy) - 1} more" if len(busy) > 1 else ""
    raise TryLaterError(
        f"another tool is at work on this cluster: {first.words} ({sanitize(file.source)}{file.age_words}){more}",
        hint=f"{again or 'wait until it ends, or pause it'}: {first.pause}",
    )


def _cruise_control(data: bytes, source: str) -> _Executor | None:
    """Cruise Control's answer; None for something else."""
    if len(data) > MAX_OBJECTS_BYTES or data.lstrip()[:1] != b"{":
        return None
    try:
        answer = decoded_json(data, _CruiseControl)
    except (msgspec.DecodeError, ValueError, RecursionError):
        if b'"ExecutorState"' not in data:
            return None
        raise InputError(source, "is not an answer of Cruise Control with a state of its executor") from None
    if answer.error is not None:
        said = sanitize(answer.error[:200])
        raise InputError(source, f"is an error of Cruise Control: {said}")
    if answer.executor is None and answer.version is not None and answer.kind is None:
        raise InputError(source, "has no ExecutorState", hint="ask Cruise Control with substates=executor")
    return answer.executor


def _chosen_cluster(
    source: str,
    objects: Iterable[KubernetesObject],
    kafkas: Sequence[StrimziKafka],
    cluster_id: str,
    wanted: str,
) -> str | None:
    """The name of the Kafka that is meant; None where no object names one."""
    names = sorted({k.name for k in kafkas} | {name for each in objects if (name := _cluster_of(each))})
    ids = {k.name: k.status.cluster_id for k in kafkas if k.status.cluster_id}
    if wanted:
        if wanted not in names:
            hint = f"its Kafkas: {few_of(map(sanitize, names))}"
            raise UsageError(f"{source}: no Kafka is called {wanted!r}", hint=hint)
        chosen: str | None = wanted
    else:
        same = [name for name, own in ids.items() if own == cluster_id]
        chosen = same[0] if len(same) == 1 else names[0] if len(names) == 1 else None
    if chosen is None and names:
        raise UsageError(
            f"{source}: holds {count_of(len(names), 'Kafka cluster')}: {few_of(map(sanitize, names))}",
            hint=f"say which: --operators-cluster {quote(names[0])}",
        )
    if chosen in ids and ids[chosen] != cluster_id:
        other = sanitize(str(ids[chosen])[:60])
        raise UsageError(f"{source}: Kafka {sanitize(chosen)} is cluster {other}, not {cluster_id}")
    return chosen


def _cluster_of(each: KubernetesObject) -> str | None:
    return each.name if isinstance(each, StrimziKafka) else each.labels.get(CLUSTER_LABEL)


def _state_of(rebalance: KafkaRebalance) -> str:
    """Its state; a name that is not known is given as it is."""
    known = [each for each in rebalance.conditions if each in set(RebalanceState)]
    others = [each for each in rebalance.conditions if each not in ("ReconciliationPaused", "Warning")]
    return (known or others or [RebalanceState.NEW])[0]


def _begins_by_itself(rebalance: KafkaRebalance) -> bool:
    notes = rebalance.annotations
    return notes.get(AUTO_APPROVAL) == "true" or notes.get(APPROVAL) == "approve"


def _of_rebalance(rebalance: KafkaRebalance) -> BusyOperator | None:
    state = _state_of(rebalance)
    if state in (RebalanceState.READY, RebalanceState.STOPPED, RebalanceState.NOT_READY):
        return None
    before = (RebalanceState.NEW, RebalanceState.PENDING, RebalanceState.PROPOSED)
    if state in before and not _begins_by_itself(rebalance):
        return None
    return BusyOperator(
        what=f"KafkaRebalance {_name_text(rebalance)}",
        state=f"in state {sanitize(state[:60])}{', which is approved' if state in before else ''}",
        pause=_annotate("kafkarebalance", rebalance, f"{APPROVAL}=stop"),
    )


def _waiting_note(rebalance: KafkaRebalance) -> str:
    state = _state_of(rebalance)
    if state in (RebalanceState.PENDING, RebalanceState.PROPOSED) and not _begins_by_itself(rebalance):
        return f"KafkaRebalance {_name_text(rebalance)} is in state {state}: do not approve it before this has ended"
    return ""


def _auto_state(kafka: StrimziKafka) -> str:
    return kafka.status.auto_rebalance.state if kafka.status.auto_rebalance is not None else ""


def _of_auto_rebalance(kafka: StrimziKafka) -> BusyOperator:
    return BusyOperator(
        what=f"the auto-rebalance of Kafka {_name_text(kafka)}",
        state=f"in state {sanitize(_auto_state(kafka)[:60])}",
        pause=_annotate("kafka", kafka, "strimzi.io/pause-reconciliation=true"),
    )


def _of_pods(each: KubernetesObject) -> BusyOperator | None:
    """A pod, or a set of pods, that is to be restarted or ended."""
    kind = "pod" if isinstance(each, Pod) else "strimzipodset"
    if each.annotations.get(ROLL) == "true":
        return BusyOperator(
            what=f"{kind} {_name_text(each)}",
            state="to be restarted by Strimzi (a drain of its node, or by hand)",
            pause=_annotate(kind, each, f"{ROLL}-"),
        )
    if isinstance(each, Pod) and (each.is_evicted or each.is_deleting):
        return BusyOperator(
            what=f"pod {_name_text(each)}",
            state="being evicted" if each.is_evicted else "being deleted",
            pause=kubectl_command("get pod", each.name, each.namespace),
        )
    return None


def _of_cruise_control(state: str) -> BusyOperator:
    return BusyOperator(
        what="the executor of Cruise Control",
        state=f"in state {sanitize(state[:60])}",
        pause="POST /kafkacruisecontrol/stop_proposal_execution",
    )


def _unread(kind: str) -> BusyOperator:
    return BusyOperator(what=kind, state="not read: this version is not known", pause=KUBECTL)


def _name_text(each: KubernetesObject) -> str:
    return sanitize(each.name[:253])


def _annotate(kind: str, each: KubernetesObject, annotation: str) -> str:
    return f"{kubectl_command(f'annotate {kind}', each.name, each.namespace)} {annotation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrimziTarget:
    """A node pool of a Kafka of Strimzi."""

    cluster: str
    pool: str
    namespace: str = ""


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_NAMED_IDS = 8


def parse_target(text: str, flag: str) -> StrimziTarget:
    """Read `CLUSTER/POOL` or `NAMESPACE/CLUSTER/POOL`; `UsageError` for what cannot be names of Kubernetes."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(_NAME.fullmatch(part) and len(part) <= 253 for part in parts):
        raise UsageError(f"{flag}: {text[:80]!r} is not CLUSTER/POOL or NAMESPACE/CLUSTER/POOL")
    *before, cluster, pool = parts
    return StrimziTarget(cluster=cluster, pool=pool, namespace="".join(before))


def strimzi_plan(target: StrimziTarget, brokers: Sequence[int], mode: str = "remove-brokers") -> str:
    """YAML of the KafkaRebalance that empties the brokers (`remove-brokers`) or fills them (`add-brokers`).

    Strimzi accepts it where the Kafka has `cruiseControl`, and decides itself what goes where. See `removal_command`.
    """
    ids = "-".join(map(str, brokers[:_NAMED_IDS]))
    lines = [
        "apiVersion: kafka.strimzi.io/v1",
        "kind: KafkaRebalance",
        "metadata:",
        f"  name: {target.cluster[:150].rstrip('-.')}-{mode}-{ids}",
        *([f'  namespace: "{target.namespace}"'] if target.namespace else []),
        "  labels:",
        f'    {CLUSTER_LABEL}: "{target.cluster}"',  # in quotes: a name of digits, or `on`, is no text in YAML
        "spec:",
        f"  mode: {mode}",
        f"  brokers: [{', '.join(map(str, brokers))}]",
    ]
    return "\n".join(lines) + "\n"


def removal_command(target: StrimziTarget, brokers: Sequence[int]) -> str:
    """Names the brokers that go when the replicas of the pool are lowered; without it those with the highest ids go."""
    annotation = quote(f"{REMOVED_IDS}=[{','.join(map(str, brokers))}]")
    return f"{kubectl_command('annotate kafkanodepool', target.pool, target.namespace)} --overwrite {annotation}"
