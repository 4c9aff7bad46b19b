"""Class archives (the JVM's class data sharing), from which a Kafka process starts in little more than half the time.

The first sandbox of a Kafka version and a Java records which classes its processes load; once it is up, the JVM
writes an archive of them into the cache. An archive is never needed: a JVM that cannot use it starts without it.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from kafkakit.ports.acting import Reporter
from kafkakit.ports.machine import Machine
from kafkakit.sandbox.decide import jvm
from kafkakit.sandbox.decide.state import SandboxState
from kafkakit.sandbox.folders import Store

_BUILD_LIMIT_S = 600.0
_NUMBER = re.compile(r" id: \d+$", re.MULTILINE)


def find_launch(machine: Machine, version: str, java: str, class_path: Sequence[str]) -> jvm.Launch:
    """How to start Java here: with the class archive of this Kafka and Java, or recording for it where there is none.

    A JVM that failed to write an archive left an empty file, and starts without one.
    """
    launch = jvm.Launch(java=java, class_path=tuple(class_path))
    if not machine.class_archives:
        return launch
    folder = Path(machine.class_archives)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"kafka-{version}-{_digest(java, class_path)}.jsa"
        use = jvm.ArchiveUse.RECORD
        if path.exists():
            use = jvm.ArchiveUse.READ if path.stat().st_size else jvm.ArchiveUse.NONE
    except OSError:
        return launch
    return replace(launch, archive=str(path), use=use)


def build_class_archive(
    machine: Machine, store: Store, state: SandboxState, launch: jvm.Launch, reporter: Reporter
) -> None:
    """Write the archive of what a recording sandbox loaded, under a temporary name first.

    Cost: about 5 s of one core, once for a Kafka version and a Java; 60 MB of cache. Several processes may do it at
    once: the last one wins, and the archives are alike.
    """
    if launch.use is not jvm.ArchiveUse.RECORD:
        return
    reporter.say(f"preparing faster starts of Kafka {state.spec.kafka} (once)")
    target, keeper = Path(launch.archive), state.layout.keeper
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    class_list, arguments = f"{keeper.folder}/all.classes", f"{keeper.folder}/archive.args"
    lists = [jvm.class_list_file(node) for node in state.layout.nodes[:2]]
    store.write(class_list, "".join(_joined([*lists, jvm.format_class_list_file(keeper)])))
    store.write(arguments, jvm.archive_arguments(launch, class_list, str(temporary)))
    with contextlib.suppress(OSError):
        command = (state.java, jvm.marker(keeper), f"@{arguments}")
        # Not recorded: it ends by itself, whatever happens to this process.
        record = machine.processes.start(command, f"{keeper.folder}/archive.log", lambda _: None)
        status = machine.processes.wait(record, _BUILD_LIMIT_S)
        if status or not temporary.exists():
            temporary.write_bytes(b"")
        temporary.replace(target)


def _digest(java: str, class_path: Iterable[str]) -> str:
    """Names the launcher and the jars as they are now: a JVM refuses an archive made with other ones."""
    facts = []
    for path in (java, *class_path):
        stat = os.stat(path)
        facts.append(f"{path} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _joined(lists: Iterable[str]) -> dict[str, None]:
    """The lines of several class lists, each once.

    A line that a running process has not finished is left out, and so are classes with a source, which not the class
    path gave; numbers, by which only such lines refer to others, differ between the lists.
    """
    lines: dict[str, None] = {}
    for path in lists:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            whole = (line for line in file if line.endswith("\n") and " source: " not in line)
            lines |= dict.fromkeys(_NUMBER.sub("", line) for line in whole)
    return lines
