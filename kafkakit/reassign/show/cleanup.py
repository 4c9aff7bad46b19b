"""What `reassign cleanup` found and did, as words and values."""

from collections.abc import Iterator
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.quantities import counted, format_rate
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.execution.decide.precheck import listed
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    INSIDE_RATE,
    LEADER_LIST,
    LEADER_RATE,
    split_list,
)
from kafkakit.reassign.decide.leftovers import Fate, LeftByRun, Leftover, LeftRate
from kafkakit.report.blocks import capped
from kafkakit.report.report import Report

COLUMNS = ("kind", "name", "key", "value", "back_to", "owner", "fate")
SHOWN = 50
_KEY_WORDS = {
    LEADER_RATE: "rate for sending",
    FOLLOWER_RATE: "rate for taking in",
    INSIDE_RATE: "rate between log dirs",
    LEADER_LIST: "list of sources",
    FOLLOWER_LIST: "list of destinations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What came out.

    `verdict` is `clean` (nothing of ours was there), `planned` (only shown), `declined`, `kept` (all of it is needed by
    moves that still run), `cleaned` or `incomplete`; `left` says what of ours stays and why.
    """

    before: Leftover
    verdict: str
    left: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when nothing of ours is left."""
        return self.verdict in ("clean", "cleaned") and not self.before.damaged


def cleanup_report(cleaned: Cleaned, program: str, *, unthrottle_running: bool) -> Report:
    """What cleanup found and did; `program` is how kafkakit is called for this cluster. What is left fails."""
    again = f"{program} reassign cleanup --yes" + (" --unthrottle-running" if unthrottle_running else "")
    next_commands = (again,) if cleaned.verdict in ("planned", "declined", "incomplete") else ()
    failure = None
    if not cleaned.ok:
        facts = [*cleaned.left, *(f"{d}, what its runs left is not known" for d in cleaned.before.damaged)]
        message = {
            "planned": "throttles of ours are left, nothing was changed",
            "declined": "not confirmed, nothing was changed",
        }.get(cleaned.verdict) or f"cleanup is not complete: {facts[0]}"
        failure = OperationFailedError(message, hint=next(iter(next_commands), None))
    return Report(
        command="reassign cleanup",
        data=cleanup_data(cleaned, next_commands),
        text=render_cleanup(cleaned, unthrottle_running=unthrottle_running),
        columns=COLUMNS,
        rows=cleanup_rows(cleaned),
        failure=failure,
    )


def plan_words(found: Leftover, *, unthrottle_running: bool) -> list[str]:
    """What is to be done, for the person who is asked."""
    lines = [f"cluster {found.cluster_id}: throttles that runs on this host left"]
    for run in found.work:
        lines += _run_words(run)
        if run.running:
            lines.append(
                "    they are removed anyway, the moves continue at full speed"
                if unthrottle_running
                else "    they stay; --unthrottle-running removes them anyway"
            )
    return lines


def render_cleanup(cleaned: Cleaned, *, unthrottle_running: bool) -> str:
    """The result for people."""
    found = cleaned.before
    lines: list[str] = []
    if cleaned.verdict == "clean":
        lines.append(f"cluster {found.cluster_id}: no throttle of a run on this host is set")
    else:
        lines += plan_words(found, unthrottle_running=unthrottle_running)
    if cleaned.verdict in ("cleaned", "incomplete"):
        lines.append("removed what is ours" if cleaned.ok else "removed what could be removed")
    elif cleaned.verdict in ("planned", "declined"):
        lines.append("nothing was changed")
    lines += [f"left: {line}" for line in cleaned.left]
    lines += [f"not read: {line}" for line in found.damaged]
    if found.strangers:
        lines.append("left alone, not set by runs of this host:")
        words = [f"  {_key_words(s.key)}: {_value_words(s.key, s.value)}" for s in found.strangers]
        lines += capped(words, str, SHOWN, "  and {} more")
    return "\n".join(lines) + "\n"


def cleanup_data(cleaned: Cleaned, next_commands: tuple[str, ...]) -> dict[str, object]:
    """The result for programs."""
    found = cleaned.before
    return {
        "cluster_id": found.cluster_id,
        "verdict": cleaned.verdict,
        "complete": cleaned.ok,
        "runs": [
            {
                "journal": r.journal,
                "plan": r.plan_path,
                "direction": r.direction,
                "moves_running": list(r.running),
                "rates": [
                    {"broker": int(i.key.name), "key": i.key.key, "value": i.now, "back_to": i.earlier, "fate": i.fate}
                    for i in r.rates
                ],
                "lists": [
                    {"topic": i.key.name, "key": i.key.key, "entries": i.entries, "fate": i.fate} for i in r.lists
                ],
            }
            for r in found.runs
        ],
        "left_alone": [{**s.key._asdict(), "value": s.value} for s in found.strangers],
        "left": list(cleaned.left),
        "damaged_journals": list(found.damaged),
        "next_commands": list(next_commands),
    }


def cleanup_rows(cleaned: Cleaned) -> tuple[tuple[object, ...], ...]:
    """One row a rate or list, in `COLUMNS`; what is not ours has the owner `other`."""
    rows: list[tuple[object, ...]] = []
    for run in cleaned.before.runs:
        rows += [(i.key.kind.value, *i.key[1:], i.now, i.earlier, "ours", i.fate.value) for i in run.rates]
        rows += [(i.key.kind.value, *i.key[1:], ",".join(i.entries), None, "ours", i.fate.value) for i in run.lists]
    rows += [(s.key.kind.value, *s.key[1:], s.value, None, "other", "left alone") for s in cleaned.before.strangers]
    return tuple(rows)


def _run_words(run: LeftByRun) -> Iterator[str]:
    yield f"  {run.name}:"
    for rate in run.rates:
        yield f"    {_key_words(rate.key)}: {_rate_words(rate)}"
    for item in run.lists:
        more = counted(len(item.entries), "entry", "entries") + " of ours" if item.fate is Fate.REMOVE else ""
        yield f"    {_key_words(item.key)}: " + (f"{more}, {item.fate}" if more else str(item.fate))
    if run.running:
        yield f"    {counted(len(run.running), 'move')} still run under them: {listed(run.running)}"


def _rate_words(rate: LeftRate) -> str:
    if rate.fate is not Fate.RESTORE:
        return str(rate.fate)
    back = "unset again" if rate.earlier is None else f"back to {_rate_text(rate.earlier)}"
    return f"{_rate_text(rate.now or '')}, {back}"


def _key_words(key: ConfigKey) -> str:
    return f"{key.kind.value} {key.name} {_KEY_WORDS.get(key.key, key.key)}"


def _value_words(key: ConfigKey, value: str) -> str:
    if key.kind is ResourceKind.BROKER:
        return _rate_text(value)
    return "all replicas (*)" if value == "*" else counted(len(split_list(value)), "entry", "entries")


def _rate_text(value: str) -> str:
    return format_rate(int(value)) if value.isdigit() else value
