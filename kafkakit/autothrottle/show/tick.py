"""A tick in one line, and as the result of a command."""

from datetime import datetime

from kafkakit.autothrottle.decide.saved import rates_data, reasons_data
from kafkakit.autothrottle.decide.tick import Tick
from kafkakit.autothrottle.show.overrides import override_words, overrides_data
from kafkakit.core.documents import encode_json
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.quantities import counted, format_bytes, format_rate
from kafkakit.core.tables import text_table
from kafkakit.execution.decide.rates import rate_words
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.report.report import Report

RATE_COLUMNS = ("broker", "direction", "rate_bytes_per_s", "limited_by", "why")
SHOWN_NOTES = 3


def tick_line(tick: Tick) -> str:
    """The summary of a tick, for the log."""
    if not tick.moves:
        words = ["no moves"]
    else:
        words = [f"{counted(tick.moves, 'move')}, {format_bytes(tick.left_bytes)} left", _rates_words(tick.rates)]
    if tick.requested_from:
        words.append(f"requested from {tick.requested_from}" if tick.moves else f"left to {tick.requested_from}")
    elif tick.writes:
        words.append(counted(tick.writes, "change"))
    notes = [*tick.owed, *tick.notes]
    words += notes[:SHOWN_NOTES]
    if len(notes) > SHOWN_NOTES:
        words.append(f"and {len(notes) - SHOWN_NOTES} more notes")
    return "; ".join(words)


def log_line(at: datetime, message: str, tick: Tick | None = None) -> str:
    """A line of the service's log for programs: one JSON object."""
    data = {"at": at.isoformat(), "message": message} | ({} if tick is None else {"tick": tick_data(tick)})
    return encode_json(data).decode().rstrip()


def once_report(tick: Tick, cluster_id: str, *, is_dry: bool = False) -> Report:
    """The result of `autothrottle once` and `explain`; text only where something changed or is to be said."""
    failure = OperationFailedError(f"not removed: {tick.owed[0]}") if tick.owed and not tick.moves else None
    return Report(
        command="autothrottle explain" if is_dry else "autothrottle once",
        data={"cluster_id": cluster_id, **tick_data(tick)},
        text=explain_text(tick) if is_dry else "" if tick.is_quiet else f"{tick_line(tick)}\n",
        columns=RATE_COLUMNS,
        rows=reasons_data(tick.decision.reasons),
        failure=failure,
    )


def tick_data(tick: Tick) -> dict[str, object]:
    """A tick for programs."""
    return {
        "moves": tick.moves,
        "left_bytes": tick.left_bytes,
        "rates": rates_data(tick.rates),
        "changes": tick.writes,
        "requested_from": tick.requested_from or None,
        "reasons": [dict(zip(RATE_COLUMNS, row, strict=True)) for row in reasons_data(tick.decision.reasons)],
        "overrides": overrides_data(tick.overrides),
        "notes": list(tick.notes),
        "not_removed": list(tick.owed),
    }


def explain_text(tick: Tick) -> str:
    """What the law decides now and why, for people."""
    lines = [tick_line(tick), ""]
    rows = [
        (b, s, format_rate(rate), binding, text) for b, s, rate, binding, text in reasons_data(tick.decision.reasons)
    ]
    if rows:
        lines.append(text_table(("broker", "direction", "rate", "limited by", "why"), rows))
    lines += [f"override for {name}: {words}" for name, words in override_words(tick.overrides)]
    return "\n".join(lines) + "\n"


def _rates_words(rates: Rates | None) -> str:
    return "no rates set" if rates is None else rate_words(rates)
