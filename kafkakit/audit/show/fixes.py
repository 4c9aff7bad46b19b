"""The repairs of a run as cluster files (`docs/lint.md` describes them) with command lines as comments."""

import yaml

from kafkakit.audit.decide.repairs import BROKER, CLUSTER, TOPIC, Repairs
from kafkakit.core.quantities import counted
from kafkakit.core.text import printable
from kafkakit.report import Report

COLUMNS = ("cluster", "resource", "name", "key", "value", "rules")


def fixes_report(repairs: Repairs, run: str) -> Report:
    """The text is a file of kind `kafkakit`, one document a cluster, that lint reads; `rows` has a row a setting."""
    rows = tuple(
        (cluster, kind, name, key, value, repairs.rules[cluster, kind, name])
        for cluster, resources in sorted(repairs.settings.items())
        for (kind, name), settings in sorted(resources.items())
        for key, value in sorted(settings.items())
    )
    head = [
        f"repairs of the findings of run {run}: {counted(len(rows), 'setting')} "
        f"of {counted(len(repairs.settings), 'cluster')}, {counted(len(repairs.commands), 'command')}",
        *repairs.commands,
    ]
    documents = [_document(cluster, resources) for cluster, resources in sorted(repairs.settings.items())]
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=10_000) if documents else ""
    return Report(
        command="audit fixes",
        data={
            "run": run,
            "clusters": documents,
            "commands": list(repairs.commands),
            "left_out": list(repairs.left_out),
        },
        text="".join(f"# {printable(line)}\n" for line in head) + text,
        columns=COLUMNS,
        rows=rows,
        warnings=tuple(printable(sentence) for sentence in repairs.left_out),
    )


def _document(cluster: str, resources: dict[tuple[str, str], dict[str, str]]) -> dict[str, object]:
    found: dict[str, list[tuple[str, dict[str, str]]]] = {TOPIC: [], BROKER: [], CLUSTER: []}
    for (kind, name), settings in sorted(resources.items()):
        found[kind].append((name, dict(sorted(settings.items()))))
    defaults = found[CLUSTER][0][1] if found[CLUSTER] else {}
    brokers = [{"id": int(name), "dynamic": config} for name, config in found[BROKER]]
    topics = [{"name": name, "config": config} for name, config in found[TOPIC]]
    parts: dict[str, object] = {"defaults": defaults, "brokers": brokers, "topics": topics}
    return {"kafkakit": "cluster", "cluster": cluster, **{name: part for name, part in parts.items() if part}}
