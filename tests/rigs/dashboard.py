"""A Grafana dashboard as a table of panels, written as the JSON that Grafana imports."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel: `expression` with metrics without their prefix behind `@`, and from which value on it is yellow and red.

    `more` are further lines beside it, each a legend and an expression. A `table` lists one row a series, with these
    labels as columns. `words` stand in place of the values 0, 1, and so on.
    """

    title: str
    about: str
    kind: str
    expression: str
    unit: str = "short"
    legend: str = ""
    more: tuple[tuple[str, str], ...] = ()
    limits: tuple[float, float] | None = None
    width: int = 6
    height: int = 8
    table: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A dashboard of some panels; `variables` are the names of labels, each with the arguments of `label_values`.

    The `uid` stays the same, so that links stay valid and a new version takes the place of the old one.
    """

    uid: str
    title: str
    about: str
    since: str
    prefix: str
    variables: Mapping[str, str]
    panels: tuple[Panel, ...]


def as_json(board: Dashboard) -> str:
    """The dashboard, panels set from left to right into rows of 24 columns, ids from 1; the same bytes each time."""
    placed, x, y, height = [], 0, 0, 0
    for number, panel in enumerate(board.panels, 1):
        if x + panel.width > _WIDTH:
            x, y, height = 0, y + height, 0
        placed.append(_panel(board.prefix, number, panel, x, y))
        x, height = x + panel.width, max(height, panel.height)
    variables = [_variable(name, query.replace("@", board.prefix)) for name, query in board.variables.items()]
    made = {
        "uid": board.uid,
        "title": board.title,
        "description": board.about,
        "schemaVersion": 39,
        "timezone": "utc",
        "time": {"from": board.since, "to": "now"},
        "templating": {"list": [_source_variable(), *variables]},
        "panels": placed,
    }
    return json.dumps(made, indent=2) + "\n"


def _panel(prefix: str, number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    targets: list[dict[str, Any]] = [
        {
            "refId": chr(ord("A") + place),
            "datasource": _SOURCE,
            "expr": expression.replace("@", prefix),
            "legendFormat": legend or "__auto",
        }
        for place, (legend, expression) in enumerate(((panel.legend, panel.expression), *panel.more))
    ]
    field: dict[str, Any] = {"unit": panel.unit}
    if panel.limits is not None:
        colors = zip((None, *panel.limits), ("green", "yellow", "red"), strict=True)
        field["thresholds"] = {"mode": "absolute", "steps": [{"value": v, "color": c} for v, c in colors]}
    if panel.words:
        options = {str(value): {"text": word, "index": value} for value, word in enumerate(panel.words)}
        field["mappings"] = [{"type": "value", "options": options}]
    made: dict[str, Any] = {
        "id": number,
        "title": panel.title,
        "description": panel.about,
        "type": panel.kind,
        "datasource": _SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": field, "overrides": []},
        "targets": targets,
    }
    if panel.table:
        targets[0] |= {"format": "table", "instant": True}
        order = {name: place for place, name in enumerate((*panel.table, "Value"))}
        columns = {"excludeByName": {"Time": True}, "indexByName": order}
        made["transformations"] = [{"id": "organize", "options": columns}]
    return made


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(label: str, arguments: str) -> dict[str, Any]:
    query = f"label_values({arguments})"
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
