"""Makes `docs/commands.md`, `docs/acl.md`, the picture in `docs/development.md`, alerts for Kubernetes.

make docs
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkakit.cli.completion import GRAMMAR
from kafkakit.cli.root import CommandEntry, OptionEntry, build_root, commands, root_options
from kafkakit.core.rights import DUTIES
from tests.places import ROOT
from tests.rigs.package_picture import picture, with_picture

PROGRAM = "kafkakit"
HEAD = f"""# Command reference

Generated from the program by `make docs`; do not edit. `{PROGRAM} --help-json` prints the same as JSON.
"""


def reference_markdown(root: Any) -> str:
    """The whole reference as Markdown."""
    parts = [HEAD, "## Options of every command", "", "They may be given before or after the command's name.", ""]
    parts += [*_option_lines(root_options(root)), ""]
    parts += ["Topics and brokers are written the same in every command:", ""]
    parts += [*(f"- `{name}`: {meaning}." for name, meaning in GRAMMAR.items()), ""]
    entries = commands(root)
    parts += ["## Index", "", *(_index_line(entry) for entry in entries), ""]
    for command in entries:
        parts += [f"## {PROGRAM} {command.words}", "", command.help, ""]
        if command.arguments:
            parts += ["Arguments:", "", *_option_lines(command.arguments), ""]
        if command.options:
            parts += ["Options:", "", *_option_lines(command.options), ""]
    return "\n".join(parts).rstrip() + "\n"


def _index_line(entry: CommandEntry) -> str:
    """The command as a link to its part, with the first sentence of its help."""
    sentence = " ".join(entry.help.split("\n\n")[0].split())
    return f"- [`{entry.words}`](#{PROGRAM}-{entry.words.replace(' ', '-')}): {sentence}"


def _option_lines(options: tuple[OptionEntry, ...]) -> list[str]:
    lines = []
    for option in options:
        value = f" {option.value}" if option.value and option.names[0].startswith("-") else ""
        extras = [f"default {option.default}"] if option.default else []
        extras += [f"environment {', '.join(option.env)}"] if option.env else []
        extras += ["required"] if option.required else []
        extras += ["repeatable"] if option.repeatable else []
        extra = f" ({'; '.join(extras)})" if extras else ""
        lines.append(f"- `{', '.join(option.names)}{value}`: {' '.join(option.help.split())}{extra}")
    return lines


def acl_markdown() -> str:
    """The table as a document, `docs/acl.md`."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Rights"
    yield ""
    yield "Generated from `kafkakit/core/rights.py` by `make docs`; do not edit. The least ACLs of each command on a"
    yield "cluster with an authorizer. A test on real brokers grants each line to a user without other rights, runs"
    yield "commands of it, takes each right away in turn, and sees them refused. `kafkakit doctor` compares what the"
    yield "user in use may do on the cluster and on the topics that it can see."
    yield ""
    yield "| for | commands | rights |"
    yield "|---|---|---|"
    for duty in DUTIES:
        rights = "; ".join(
            f"{', '.join(o.upper() for o in sorted(operations))} on {resource}"
            for resource, operations in duty.rights.items()
            if operations
        )
        yield f"| {duty.name} | {', '.join(f'`{c}`' for c in duty.commands)} | {rights} |"
    yield ""
    yield "Kafka's authorizer grants DESCRIBE with READ, WRITE, DELETE or ALTER, and DESCRIBE_CONFIGS with"
    yield "ALTER_CONFIGS, so these are not named twice. Topics are those that are planned, moved or read. Commands that"
    yield "are not named need no right, only a login."
    yield ""
    for duty in DUTIES:
        if duty.note:
            yield f"- {duty.name}: {duty.note}."
    yield ""
    yield "A run checks its rights before its first change, those on each topic too: without ALTER_CONFIGS on a topic a"
    yield "throttle could not be removed later."


RULE_HEAD = """apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kafkakit-lag
  labels:
    app.kubernetes.io/name: kafkakit
    app.kubernetes.io/instance: kafkakit
    app.kubernetes.io/component: lag
spec:
"""


def prometheus_rules() -> dict[Path, str]:
    """The alert rules as Prometheus' operator takes them, and as the chart does, by file."""
    parts = [
        f"  # {path.name}\n" + path.read_text("utf-8").partition("\ngroups:\n")[2]
        for path in sorted((ROOT / "deploy/prometheus").glob("*.rules.yaml"))
    ]
    text = "groups:\n" + "".join(parts)
    lines = (f"  {line}" if line.strip() else line for line in text.splitlines(keepends=True))
    places = ROOT / "deploy/kubernetes"
    return {places / "monitoring/rules.yaml": RULE_HEAD + "".join(lines), places / "chart/rules.yaml": text}


if __name__ == "__main__":
    for place, text in prometheus_rules().items():
        place.write_text(text)
    (ROOT / "docs" / "commands.md").write_text(reference_markdown(build_root()))
    (ROOT / "docs" / "acl.md").write_text(acl_markdown())
    guide = ROOT / "docs" / "development.md"
    guide.write_text(with_picture(guide.read_text(), picture(ROOT / PROGRAM)))
