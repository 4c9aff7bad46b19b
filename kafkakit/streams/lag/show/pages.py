"""The HTTP pages of the service: metrics, views as JSON, and health."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkakit.core.documents import encode_json
from kafkakit.core.errors import UsageError
from kafkakit.core.http_page import HttpPage
from kafkakit.core.tables import plain_value
from kafkakit.streams.lag.decide.looks import Published
from kafkakit.streams.lag.decide.views.selecting import LineOrder, RowFilter, ViewRequest
from kafkakit.streams.lag.decide.views.views import ViewLevel
from kafkakit.streams.lag.show.metrics_text import exposition
from kafkakit.streams.lag.show.service_metrics import all_families, instance_data
from kafkakit.streams.lag.show.views import view_data

if TYPE_CHECKING:
    from kafkakit.streams.lag.decide.condition import MonitorCondition
    from kafkakit.streams.lag.decide.measure.table import LagTable

DEFAULT_TOP = 500
MAX_TOP = 20_000
JSON_KEYS = ("by", "group", "topic", "cluster", "top")
METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
JSON_MEDIA = "application/json"


def service_pages(
    published: Callable[[], Published],
    is_healthy: Callable[[], bool],
    max_series: int,
    partition_groups: Sequence[str] = (),
) -> dict[str, Callable[[Mapping[str, str]], HttpPage]]:
    """The pages by path; each is made from what may be published when it is requested."""

    def metrics(query: Mapping[str, str]) -> HttpPage:
        del query
        found = all_families(published(), max_series, partition_groups)
        return HttpPage(body=exposition(found).encode(), media=METRICS_MEDIA)

    def views(query: Mapping[str, str]) -> HttpPage:
        now = published()
        return HttpPage(
            body=json_page(query, now.tables, now.conditions, now.at_ms, instance_data(now)), media=JSON_MEDIA
        )

    def health(query: Mapping[str, str]) -> HttpPage:
        del query
        now, is_well = published(), is_healthy()
        return HttpPage(
            body=health_page(is_well, now.conditions, instance_data(now)),
            media=JSON_MEDIA,
            status=200 if is_well else 503,
        )

    return {"/metrics": metrics, "/json": views, "/healthz": health}


def json_page(
    query: Mapping[str, str],
    tables: "tuple[LagTable, ...]",
    conditions: "tuple[MonitorCondition, ...]",
    at_ms: int,
    instance: Mapping[str, object],
) -> bytes:
    """One view as JSON: `by` names the level (`group_topic` when not given), `group` and `topic` are globs, `cluster` a
    name, `top` a limit of lines. Raises `UsageError` for anything else."""
    unknown = sorted(set(query) - set(JSON_KEYS))
    if unknown:
        raise UsageError(f"unknown key {unknown[0]!r:.40}", hint=f"there are {', '.join(JSON_KEYS)}")
    try:
        level = ViewLevel(query.get("by", ViewLevel.GROUP_TOPIC.value).replace("-", "_"))
    except ValueError:
        raise UsageError("by names no level", hint=f"there are {', '.join(sorted(ViewLevel))}") from None
    top = _number(query.get("top", str(DEFAULT_TOP)))
    cluster = query.get("cluster")
    rows = RowFilter(groups=_globs(query, "group"), topics=_globs(query, "topic"))
    request = ViewRequest(level=level, order=LineOrder.WORST, top=top, rows=rows)
    chosen = [t for t in tables if cluster in (None, t.cluster)]
    found = [c for c in conditions if cluster in (None, c.cluster)]
    body = {"instance": instance, **view_data(request.of(chosen), found, at_ms)}
    return encode_json(plain_value(body))


def health_page(is_healthy: bool, conditions: "tuple[MonitorCondition, ...]", instance: Mapping[str, object]) -> bytes:
    """Whether all is well, and of each cluster its phase and its notes."""
    clusters = {
        c.cluster: {"phase": c.phase.value, "as_of_ms": None if c.as_of_ms < 0 else c.as_of_ms, "notes": list(c.notes)}
        for c in conditions
    }
    return encode_json({"healthy": is_healthy, "instance": plain_value(instance), "clusters": clusters})


def _globs(query: Mapping[str, str], key: str) -> tuple[str, ...]:
    return (query[key],) if query.get(key) else ()


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_TOP:
        raise UsageError(f"top must be a number from 1 to {MAX_TOP:,}")
    return int(text)
