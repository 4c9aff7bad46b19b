"""The pacer's journal: what it set on the cluster and what stood there before, kept in the control store."""

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.store_lines import MemoryLines, pacer_lines
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.journal_state import RunState, change_to_data
from kafkakit.execution.decide.rates import rates_to_data
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore

IDENTITY = "autothrottle"
COMPACT_BYTES = 200_000
LINE_CHANGES = 200


def open_journal(store: ControlStore, clock: Clock, cluster_id: str) -> RunJournal:
    """The journal as it stands; raises `InputError` for a damaged one, `TryLaterError` while the store is away."""
    return RunJournal(pacer_lines(store, cluster_id), clock, cluster_id=cluster_id, fingerprint=IDENTITY)


def compact(store: ControlStore, clock: Clock, cluster_id: str) -> None:
    """Keep only what the journal means: nothing where no throttle of ours is left, a few lines where it grew long."""
    lines = pacer_lines(store, cluster_id)
    size = len(lines.read())
    if not size:
        return
    state = open_journal(store, clock, cluster_id).state
    if not state.throttled:
        lines.replace(b"")
    elif size > COMPACT_BYTES:
        lines.replace(_shortest(state, clock, cluster_id, lines.name))


def _shortest(state: RunState, clock: Clock, cluster_id: str, name: str) -> bytes:
    memory = MemoryLines(name)
    journal = RunJournal(memory, clock, cluster_id=cluster_id, fingerprint=IDENTITY)
    changes = [
        change_to_data(_change(key.kind, key.name, key.key, ConfigOp.SET, value), hold.earlier)
        for key, hold in sorted(state.rates.items())
        for value in sorted(hold.ours)
    ]
    for key, entries in sorted(state.entries.items()):
        for at in range(0, max(1, len(entries)), LINE_CHANGES):
            value = ",".join(entries[at : at + LINE_CHANGES])
            changes.append(change_to_data(_change(key.kind, key.name, key.key, ConfigOp.APPEND, value)))
    for at in range(0, len(changes), LINE_CHANGES):
        # An intent without an effect: the same as of a process that was killed at it.
        journal.intent(What.THROTTLE, {"changes": changes[at : at + LINE_CHANGES]})
    if state.wanted is not None:
        journal.check(What.RATES, {"rates": rates_to_data(state.wanted)})
    return memory.data


def _change(kind: ResourceKind, name: str, key: str, op: ConfigOp, value: str) -> ConfigChange:
    return ConfigChange(kind=kind, name=name, key=key, op=op, value=value)
