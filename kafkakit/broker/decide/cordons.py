"""Cordoning brokers: what `broker cordon` and `broker uncordon` write for each broker, from what is there.

A mark in the control store keeps every planner of kafkakit from giving a broker new replicas. Kafka 4.3 and later is
told as well: `cordoned.log.dirs` of the broker becomes `*`. The mark is written first and holds what was set before, so
that a command that was cut can be run again and `uncordon` restores exactly what it found.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.errors import UsageError
from kafkakit.core.model import CORDONED_DIRS, MAX_REASON, CordonMark
from kafkakit.core.text import few_of, sanitize

EVERY_DIR = "*"
NOT_TOLD = "the broker is down and Kafka is not told; run the command again when it is back"
TOO_OLD = "Kafka before 4.3 is not told: topics that others create may still get replicas there"


class CordonSetting(StrEnum):
    """Whether a broker has the setting `cordoned.log.dirs`; a silent one did not answer."""

    KNOWN = "known"
    ABSENT = "absent"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonFacts:
    """What was read of one broker.

    `own` is the `cordoned.log.dirs` that was set on it while it ran (None: nothing), `in_force` the one it uses,
    which may come from its file. `mark` is that of the control store.
    """

    broker: int
    setting: CordonSetting
    own: str | None = None
    in_force: str = ""
    mark: CordonMark | None = None


class CordonVerdict(StrEnum):
    """What a command does with one broker."""

    CORDON = "cordoned"
    UNCHANGED = "already cordoned"
    UNCORDON = "uncordoned"
    NOT_CORDONED = "not cordoned"
    NOT_REACHED = "still cordoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonStep:
    """The writes for one broker: a mark (None: it is removed, or stays as it is), then Kafka's setting if any.

    `change` replaces the value `replaced`. `note` is for the operator.
    """

    broker: int
    verdict: CordonVerdict
    mark: CordonMark | None = None
    writes_mark: bool = False
    change: ConfigChange | None = None
    replaced: str | None = None
    note: str = ""

    @property
    def changes(self) -> bool:
        """True when anything is written."""
        return self.writes_mark or self.change is not None


def check_reason(reason: str) -> str:
    """The reason without blanks around it; `UsageError` for one that is too long or does not print."""
    text = reason.strip()
    if len(text) > MAX_REASON or not text.isprintable():
        raise UsageError(f"--reason: at most {MAX_REASON} printable characters on one line")
    return text


def require_brokers(ids: Collection[int], known: Collection[int], marked: Collection[int] = ()) -> None:
    """Raise `UsageError` for ids that are neither in the cluster nor marked."""
    if unknown := sorted({*ids} - {*known} - {*marked}):
        are = "is" if len(unknown) == 1 else "are"
        raise UsageError(
            f"broker {few_of(unknown)} {are} not in the cluster", hint=f"its brokers are {few_of(sorted(known))}"
        )


def decide_cordon(facts: CordonFacts, reason: str, by: str, now: datetime) -> CordonStep:
    """Mark the broker and, where it has the setting, cordon all its log dirs.

    A mark that is there keeps its time and what it found; a reason that is given replaces its own.
    """
    mark = facts.mark or CordonMark(broker=facts.broker, since=now, by=by, reason=reason)
    mark = replace(mark, reason=reason or mark.reason)
    change = None
    if facts.setting is CordonSetting.KNOWN:
        is_ours = mark.set_dirs == EVERY_DIR and facts.own == EVERY_DIR
        mark = replace(mark, found_dirs=mark.found_dirs if is_ours else facts.own, set_dirs=EVERY_DIR)
        change = None if facts.own == EVERY_DIR else change_of(facts.broker, EVERY_DIR)
    writes_mark = mark != facts.mark
    return CordonStep(
        broker=facts.broker,
        verdict=CordonVerdict.CORDON if writes_mark or change else CordonVerdict.UNCHANGED,
        mark=mark,
        writes_mark=writes_mark,
        change=change,
        replaced=facts.own,
        note={CordonSetting.SILENT: NOT_TOLD, CordonSetting.ABSENT: TOO_OLD}.get(facts.setting, ""),
    )


def decide_uncordon(facts: CordonFacts) -> CordonStep:
    """Restore what the mark found, then remove the mark; what somebody else set since, or before, stays.

    A broker that was told and does not answer keeps its mark: without it nobody would know what to restore.
    """
    mark, broker = facts.mark, facts.broker
    if mark is None:
        note = f"its {CORDONED_DIRS} was not set by kafkakit and stays {_setting_text(facts.in_force)}"
        return CordonStep(broker=broker, verdict=CordonVerdict.NOT_CORDONED, note=note if facts.in_force else "")
    if mark.set_dirs is not None and facts.setting is CordonSetting.SILENT:
        note = f"the broker does not answer: its {CORDONED_DIRS} cannot be restored"
        return CordonStep(broker=broker, verdict=CordonVerdict.NOT_REACHED, mark=mark, note=note)
    change, note = None, ""
    if mark.set_dirs is not None and facts.setting is CordonSetting.KNOWN and facts.own != mark.found_dirs:
        if facts.own == mark.set_dirs:
            change = change_of(broker, mark.found_dirs)
        else:
            note = f"its {CORDONED_DIRS} was changed since and stays {_setting_text(facts.own or '')}"
    elif mark.set_dirs is not None and mark.found_dirs:
        note = f"its {CORDONED_DIRS} was set before and stays {_setting_text(mark.found_dirs)}"
    return CordonStep(
        broker=broker,
        verdict=CordonVerdict.UNCORDON,
        writes_mark=True,
        change=change,
        replaced=facts.own,
        note=note,
    )


def change_of(broker: int, value: str | None) -> ConfigChange:
    """The change of a broker's `cordoned.log.dirs`; None deletes what is set on it."""
    op = ConfigOp.DELETE if value is None else ConfigOp.SET
    return ConfigChange(kind=ResourceKind.BROKER, name=str(broker), key=CORDONED_DIRS, op=op, value=value)


def facts_of(
    ids: Collection[int],
    settings: Mapping[int, Mapping[str, str]],
    own: Mapping[str, Mapping[str, str]],
    marks: Mapping[int, CordonMark],
) -> dict[int, CordonFacts]:
    """What was read, by broker: settings in force and set on brokers, of those that answer, and the marks."""
    found = {}
    for broker in sorted(ids):
        setting = CordonSetting.SILENT
        if broker in settings and str(broker) in own:
            setting = CordonSetting.KNOWN if CORDONED_DIRS in settings[broker] else CordonSetting.ABSENT
        found[broker] = CordonFacts(
            broker=broker,
            setting=setting,
            own=own.get(str(broker), {}).get(CORDONED_DIRS),
            in_force=settings.get(broker, {}).get(CORDONED_DIRS, ""),
            mark=marks.get(broker),
        )
    return found


def _setting_text(value: str) -> str:
    return sanitize(value) or "empty"
