"""Writing settings: each change is compared with what is set before, journaled, made, and read back."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby

from kafkakit.core.cluster_facts import ConfigChange, ConfigLayer, ConfigOp, ResourceKind
from kafkakit.core.errors import KafkakitError, LeaseLostError, TryLaterError
from kafkakit.core.lists_in_words import some
from kafkakit.execution.act.retrier import Retrier, wait_until
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.rollout.act.journals import RolloutJournal
from kafkakit.rollout.act.reading import PartitionWatch
from kafkakit.rollout.decide.journal import RolloutWord, TouchedSetting
from kafkakit.rollout.decide.plan import shown
from kafkakit.rollout.decide.settings import SettingChange, is_same, where_of
from kafkakit.rollout.decide.steps import PlannedStep
from kafkakit.rollout.decide.undoing import GONE, not_ours

SHOW_TIMEOUT_S = 20.0
RestartBroker = Callable[[int, Mapping[str, str | None]], str]
"""Puts settings into a broker's file (None takes one out) and restarts it; returns what went wrong, if anything."""
Values = dict[ConfigKey, str | None]


def key_of(change: SettingChange) -> ConfigKey:
    """The setting that a change is about."""
    return ConfigKey(change.kind, change.name, change.key)


class SettingsWriter:
    """Makes the changes of a rollout and takes them back.

    Kafka has no compare-and-set: what another process writes between our read and our write, a few milliseconds, is
    overwritten. It is in the journal as ours then.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        journal: RolloutJournal,
        retrier: Retrier,
        restart_broker: RestartBroker | None,
        settle_s: float,
    ) -> None:
        self._admin, self._clock, self._journal, self._retrier = admin, clock, journal, retrier
        self._restart_broker, self._settle_s = restart_broker, settle_s

    def carry_out(self, step: PlannedStep) -> tuple[str, ...]:
        """Make what is not made yet; returns why the step failed, nothing when it is done."""
        try:
            todo, problems = self._compared(step)
            if problems or not todo:
                return problems or self._settled(step)
            if step.restart:
                return self._restarted(RolloutWord.RESTART, todo) or self._settled(step)
            return self._written(RolloutWord.WRITE, todo)
        except LeaseLostError:
            raise  # the process that has it now may be acting already
        except TryLaterError as error:
            return (f"{step.name}: {error.message}",)

    def take_back(self, touched: Sequence[TouchedSetting]) -> tuple[str, ...]:
        """Restore what every setting had first, the last one first; returns what was left, and why.

        A value that is not ours by now is left alone.
        """
        left: list[str] = []
        for (restart, kind, name), group in groupby(
            reversed(touched), key=lambda t: (t.restart, t.key.kind, t.key.name)
        ):
            settings = tuple(group)
            where = where_of(kind, name)
            try:
                values = self._awaited([t.key for t in settings], restart=restart)
                left += [
                    not_ours(t, values[t.key]) for t in settings if t.key in values and not t.is_ours(values[t.key])
                ]
                left += [f"{where} {t.key.key}: {GONE}" for t in settings if t.key not in values]
                todo = tuple(
                    SettingChange(kind=kind, name=name, key=t.key.key, before=values[t.key], after=t.original)
                    for t in settings
                    if t.key in values and t.is_ours(values[t.key]) and not is_same(values[t.key], t.original)
                )
                if todo and restart:
                    left += self._restarted(RolloutWord.RESTORE, todo) or self._rejoined(int(name))
                elif todo:
                    left += self._written(RolloutWord.RESTORE, todo)
            except LeaseLostError:
                raise
            except TryLaterError as error:
                left.append(f"{where}: {error.message}")
        return tuple(left)

    def values(self, keys: Collection[ConfigKey], *, restart: bool = False) -> Values:
        """What is set now; settings of topics that are gone and of brokers that do not answer are absent."""
        found: Values = {}
        if restart:
            ids = sorted({int(k.name) for k in keys})
            layers = self._retrier.call("reading settings", lambda: self._admin.broker_configs(ids, defaults=True))
            for key in keys:
                if (of_broker := layers.get(int(key.name))) is not None:
                    value = of_broker.get(key.key)
                    is_set = value is not None and value.layer is ConfigLayer.STATIC
                    found[key] = value.value if value is not None and is_set else None
            return found
        for kind in ResourceKind:
            names = sorted({k.name for k in keys if k.kind is kind})
            if names:
                own = self._retrier.call(
                    "reading settings",
                    lambda kind=kind, names=names: self._admin.dynamic_configs(kind, names),  # type: ignore[misc]
                )
                found |= {k: own[k.name].get(k.key) for k in keys if k.kind is kind and k.name in own}
        return found

    def _awaited(self, keys: Collection[ConfigKey], *, restart: bool) -> Values:
        """As `values`; a broker that restarts, maybe by the command of a process that was killed, is waited for."""
        found: Values = {}

        def is_there() -> bool:
            nonlocal found
            found = self.values(keys, restart=restart)
            return bool(found) or not restart

        wait_until(self._clock, self._settle_s, is_there)
        return found

    def _compared(self, step: PlannedStep) -> tuple[tuple[SettingChange, ...], tuple[str, ...]]:
        """What is still to be done, and what stands against it."""
        values = self._awaited([key_of(c) for c in step.changes], restart=step.restart)
        todo: list[SettingChange] = []
        problems: list[str] = []
        for change in step.changes:
            key = key_of(change)
            if key not in values:
                problems.append(f"{change.where} {change.key}: {GONE}")
            elif is_same(values[key], change.after):
                continue
            elif is_same(values[key], change.before):
                todo.append(change)
            else:
                problems.append(
                    f"{change.where} {change.key} is {shown(change.key, values[key])}, and was "
                    f"{shown(change.key, change.before)}: another process changed it"
                )
        return tuple(todo), tuple(problems)

    def _written(self, word: RolloutWord, changes: Sequence[SettingChange]) -> tuple[str, ...]:
        """Journal and make changes, and wait until they show."""
        altered = [
            ConfigChange(
                kind=c.kind,
                name=c.name,
                key=c.key,
                op=ConfigOp.DELETE if c.after is None else ConfigOp.SET,
                value=c.after,
            )
            for c in changes
        ]
        seq = self._journal.intend(word, changes)
        answers = self._retrier.call("changing settings", lambda: self._admin.alter_configs(altered))
        errors = tuple(
            f"{c.where} {c.key}: refused ({error})"
            for c, a in zip(changes, altered, strict=True)
            if (error := answers.get(a)) is not None
        )
        self._journal.answered(seq, word, errors)
        accepted = [c for c, a in zip(changes, altered, strict=True) if answers.get(a) is None]
        return (*errors, *self._unshown(accepted))

    def _unshown(self, changes: Iterable[SettingChange], *, restart: bool = False) -> tuple[str, ...]:
        """The changes that a read does not show in time; what somebody else wrote meanwhile is among them."""
        waiting = {key_of(c): c for c in changes}
        last: Values = {}

        def all_show() -> bool:
            nonlocal last
            last = self.values(list(waiting), restart=restart)
            for key in [k for k, c in waiting.items() if k in last and is_same(last[k], c.after)]:
                del waiting[key]
            return not waiting

        if wait_until(self._clock, SHOW_TIMEOUT_S, all_show, every_s=0.2):
            return ()
        return tuple(
            f"{c.where} {c.key} was set to {shown(c.key, c.after)} and is "
            f"{shown(c.key, last[key]) if key in last else 'gone'}: another process changed it"
            for key, c in waiting.items()
        )

    def _restarted(self, word: RolloutWord, changes: Sequence[SettingChange]) -> tuple[str, ...]:
        """Have the operator's command change a broker's file and restart it, and wait until it runs with that."""
        broker = int(changes[0].name)
        if self._restart_broker is None:
            keys = some(c.key for c in changes)
            return (f"broker {broker} must be restarted for {keys}, and no --restart-with is given",)
        seq = self._journal.intend(word, changes)
        problem = self._restart_broker(broker, {c.key: c.after for c in changes})
        errors = (f"restart of broker {broker}: {problem}",) if problem else ()
        self._journal.answered(seq, word, errors)
        return errors or self._back_with(broker, changes)

    def _back_with(self, broker: int, changes: Sequence[SettingChange]) -> tuple[str, ...]:
        def runs() -> bool:
            try:
                info = self._admin.cluster()
            except KafkakitError:
                return False
            return any(b.id == broker and b.is_alive for b in info.brokers)

        if not wait_until(self._clock, self._settle_s, runs):
            return (f"broker {broker} did not come back within {self._settle_s:g} s",)
        return self._unshown(changes, restart=True)

    def _settled(self, step: PlannedStep) -> tuple[str, ...]:
        return self._rejoined(int(step.changes[0].name)) if step.restart else ()

    def _rejoined(self, broker: int) -> tuple[str, ...]:
        """Wait until every copy on a restarted broker is in sync."""
        watch = self._retrier.call("reading topics", lambda: PartitionWatch(self._admin, self._clock))
        waiting: tuple[str, ...] = ()

        def all_in_sync() -> bool:
            nonlocal waiting
            try:
                waiting = watch.waits_for(broker)
            except TryLaterError:
                return False
            return not waiting

        if wait_until(self._clock, self._settle_s, all_in_sync):
            return ()
        return (f"broker {broker} is not in sync again after {self._settle_s:g} s: {some(waiting)}",)
