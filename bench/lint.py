"""Lint at the size of a fleet, in process, and one small file as a hook runs it.

    bench/lint.py [--topics 10000] [--brokers 100] [--runs 5]

Asked: 10,000 topics with 36 keys each and 100 brokers with 300 keys each under 8 s and 600 MB; a one-file run under
250 ms. No peer does this: the nearest, topicctl's check, needs a live cluster and prints pass or fail.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from machine import shape

from kafkakit.core.columns import without_collector
from kafkakit.lint.decide.decision import LintRequest, lint
from kafkakit.lint.decide.files import read_text
from kafkakit.lint.decide.lint_config import LIMITS_OF, RuleSelection, RuleSet, selected_rules
from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.config_defs import config_table

VERSION = "4.3"


def topic_file(first: int, number: int) -> str:
    """A file of topics with every key of the version, each at its default or, here and there, another value."""
    table = config_table(VERSION).topic
    keys = [(key, d.default) for key, d in sorted(table.items()) if not d.internal and d.default not in (None, "")]
    lines = ["kafkakit: cluster", "cluster: bench", "topics:"]
    for topic in range(first, first + number):
        lines += [f"- name: topic-{topic:05d}", "  partitions: 12", "  replication_factor: 3", "  config:"]
        for number_of_key in range(36):
            key, default = keys[number_of_key % len(keys)]
            value = "86400000" if key == "retention.ms" and topic % 3 == 0 else default
            if number_of_key < len(keys):
                lines.append(f'    {key}: "{value}"')
    return "\n".join(lines) + "\n"


def properties_file(broker: int) -> str:
    """A `server.properties` with 300 keys, each at its default."""
    table = config_table(VERSION).broker
    keys = [(k, d.default) for k, d in sorted(table.items()) if not d.internal and d.default not in (None, "")][:290]
    lines = [f"node.id={broker}", "process.roles=broker", f"broker.rack={'abc'[broker % 3]}"]
    own = {"node.id", "process.roles", "broker.rack"}
    return "\n".join([*lines, *(f"{key}={value}" for key, value in keys if key not in own)]) + "\n"


def fleet(topics: int, brokers: int, rule_set: RuleSet) -> dict[str, float]:
    """Read and check everything; seconds, findings and the process's greatest memory in MB."""
    known = all_rules()
    rules = selected_rules(known, RuleSelection(rule_set=rule_set))
    texts = {f"topics-{n:04d}.yaml": topic_file(n, min(500, topics - n)) for n in range(0, topics, 500)}
    texts |= {f"broker-{n:03d}/server.properties": properties_file(n) for n in range(brokers)}
    request = LintRequest(
        rules=rules,
        known=known,
        assemble=AssemblyOptions(kafka_version=VERSION),
        today=date(2026, 1, 1),
        limits=LIMITS_OF[rule_set],
    )
    start, cpu = time.perf_counter(), time.process_time()
    files = [read_text(path, text) for path, text in texts.items()]
    read = time.perf_counter()
    result = lint(files, (), request).result
    end = time.perf_counter()
    return {
        "seconds": round(end - start, 2),
        "of_which_reading_s": round(read - start, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "findings": len(result.checked),
        "topics": result.resources["topic"],
        "brokers": result.resources["broker"],
        "rules": len(rules),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
    }


def hook(runs: int) -> dict[str, float]:
    """One small file through the command line; wall and CPU time of the process in ms, medians."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.yaml"
        path.write_text(topic_file(0, 1))
        command = [sys.executable, "-m", "kafkakit", "lint", str(path), "--fail-on", "never"]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        walls, cpus = [], []
        for _ in range(runs + 1):
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            walls.append(time.perf_counter() - start)
            cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        "wall_ms": round(1000 * statistics.median(walls[1:])),
        "cpu_ms": round(1000 * statistics.median(cpus[1:])),
    }


def main() -> None:
    """Measure both and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    one_file = hook(given.runs)
    with without_collector():  # as the command does
        found = {kind.value: fleet(given.topics, given.brokers, kind) for kind in (RuleSet.CORE, RuleSet.STRICT)}
    print(json.dumps({"bench": "lint", "machine": shape(), "fleet": found, "one_file": one_file}, indent=2))


if __name__ == "__main__":
    main()
