"""The result of `autothrottle show`, and the pages that the service publishes."""

from collections.abc import Callable, Mapping

from kafkakit.autothrottle.decide.saved import SavedTick
from kafkakit.autothrottle.decide.status import PacerStatus
from kafkakit.autothrottle.decide.tick import Tick
from kafkakit.autothrottle.show.overrides import override_words, overrides_data
from kafkakit.core.documents import encode_json
from kafkakit.core.http_page import HttpPage, Pages
from kafkakit.core.quantities import counted, format_rate
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.report.blocks import attributes
from kafkakit.report.metrics_text import exposition, gauge, single
from kafkakit.report.report import Report

COLUMNS = ("of", "name", "key", "value", "set_by")
SHOWN_OTHERS = 10
METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"


def status_report(found: PacerStatus, *, every: bool) -> Report:
    """What is set and by which process; of others' throttles the first ones, unless `every`."""
    lines = [f"cluster {found.cluster_id}: {counted(found.moves, 'move')} with a copy to make"]
    lines.append(f"leader: {found.leader or 'no pacer leads now'}")
    if found.run:
        lines.append(f"may change the cluster now: {found.run}")
    lines += [f"set by the pacer: {_words(k, v)}" for k, v in found.own.items()] or ["the pacer has set nothing"]
    others = list(found.others.items())
    shown = others if every else others[:SHOWN_OTHERS]
    lines += [f"set by others, left alone: {_words(k, v)}" for k, v in shown]
    if len(others) > len(shown):
        lines.append(f"and {len(others) - len(shown)} more of others: --all names them")
    lines += [f"override for {name}: {words}" for name, words in override_words(found.overrides)]
    lines += [f"broker {b} does not answer; what is set on it is not known" for b in found.unreached]
    if (tick := found.tick) is not None:
        lines.append(f"last tick: {tick.at:%Y-%m-%d %H:%M:%S} UTC by {tick.by}, law {tick.law}, {tick.moves} moves")
        lines += [
            f"  broker {b} {side}: {format_rate(rate)} ({why}: {text})" for b, side, rate, why, text in tick.reasons
        ]
        lines += [f"  note: {note}" for note in tick.notes]
    rows = [(k, v, "autothrottle") for k, v in found.own.items()] + [(k, v, "others") for k, v in others]
    return Report(
        command="autothrottle show",
        data={
            "cluster_id": found.cluster_id,
            "moves": found.moves,
            "leader": found.leader or None,
            "run": found.run or None,
            "throttles": [{**k.as_data(), "value": v, "set_by": by} for k, v, by in rows],
            "overrides": overrides_data(found.overrides),
            "unreached_brokers": list(found.unreached),
            "last_tick": None if found.tick is None else _tick_data(found.tick),
        },
        text="\n".join(lines) + "\n",
        columns=COLUMNS,
        rows=tuple((k.kind.value, k.name, k.key, v, by) for k, v, by in rows),
    )


def service_pages(last: Callable[[], Tick | None], leads: Callable[[], bool], failure: Callable[[], str]) -> Pages:
    """`/healthz` (503 after a tick that failed) and `/metrics`, by path."""

    def health(query: Mapping[str, str]) -> HttpPage:
        del query
        reason = failure()
        body = encode_json({"healthy": not reason, "leader": leads(), "problem": reason or None})
        return HttpPage(body=body, media="application/json", status=503 if reason else 200)

    def metrics(query: Mapping[str, str]) -> HttpPage:
        del query
        tick = last() if leads() else None
        found = [
            single("leader", "1 while this instance leads.", leads()),
            single("failed", "1 after a tick that failed.", bool(failure())),
        ]
        if tick is not None:
            rates = tick.rates
            sides = [] if rates is None else [("in", rates.into_of), ("out", rates.out_of)]
            samples = [
                ((("broker", str(b)), ("direction", side)), float(r))
                for side, of in sides
                for b, r in sorted(of.items())
            ]
            found += [
                single("moves", "Moves with a copy to make.", tick.moves),
                single("left_bytes", "Bytes that they still have to copy.", tick.left_bytes),
                single("not_removed", "Throttles that could not be removed.", len(tick.owed)),
                gauge("rate_bytes_per_second", "The rate that is set.", *samples),
            ]
        return HttpPage(body=exposition(found, "kafkakit_autothrottle_").encode(), media=METRICS_MEDIA)

    return {"/healthz": health, "/metrics": metrics}


def _words(key: ConfigKey, value: str) -> str:
    return f"{key.kind.value} {key.name} {key.key}={value if len(value) <= 80 else value[:77] + '...'}"


def _tick_data(tick: SavedTick) -> Mapping[str, object]:
    names = ("broker", "direction", "rate_bytes_per_s", "limited_by", "why")
    return {
        "at": tick.at.isoformat(),
        **attributes(tick, "by law moves rates"),
        "reasons": [dict(zip(names, row, strict=True)) for row in tick.reasons],
        "notes": list(tick.notes),
    }
