"""One run of lint: rules, files and cluster read; fixes, baseline and other outputs written; the result out.

Rules are those of the kit, of installed packages that the lint configuration names, and of the configuration itself.
Folders are walked in a fixed order, without loops and without end; reading has limits, and a file that cannot be read
is a finding of that file. A live cluster becomes pieces: its snapshot, and what was set on brokers and topics, with the
layer that set it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import count_of
from kafkakit.core.text import sanitize
from kafkakit.core.yaml_json import ANY_FILE, Document, sound_document
from kafkakit.lint.decide.acceptance import (
    BASELINE_LIMIT_BYTES,
    Baseline,
    decode_baseline,
    encode_baseline,
    prune_baseline,
)
from kafkakit.lint.decide.decision import LintChoice, fail_on_of, lint_request
from kafkakit.lint.decide.files import (
    LIMIT_BYTES,
    SNAPSHOT_LIMIT_BYTES,
    SUFFIXES,
    FileReading,
    foreign_reading,
    kind_named,
    looks_known,
    read_text,
    suffix_of,
    unreadable_reading,
)
from kafkakit.lint.decide.fixes import FixedRun, LintDone, fix_all, lint_for_fixes
from kafkakit.lint.decide.kinds.kind import without_secret
from kafkakit.lint.decide.lint_config import LintConfig, read_lint_config
from kafkakit.lint.decide.pieces import (
    BrokerPiece,
    ClusterPiece,
    Pieces,
    TopicPiece,
    seen_broker,
    seen_partitions,
    seen_replication,
)
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.effective import DeclaredValue, ValueSource
from kafkakit.rules.rule import LintRule
from kafkakit.rules.values import HIDDEN

if TYPE_CHECKING:
    from kafkakit.core.cluster_facts import LayeredValue
    from kafkakit.core.model import Broker, ClusterSnapshot, TagSet
    from kafkakit.ports.admin import ClusterAdmin

Write = Callable[[Path, bytes], None]


def write_outputs(texts: Sequence[tuple[Path, str]], write_file: Write) -> None:
    """Write each text to its file, as a whole."""
    for path, text in texts:
        write_file(path, text.encode("utf-8", "backslashreplace"))


def write_site(rules: Sequence[LintRule], folder: Path, write_file: Write) -> int:
    """Write the pages of rules to a folder, which is made where it is missing; returns how many files."""
    from kafkakit.lint.rule_pages import site_files

    folder.mkdir(parents=True, exist_ok=True)
    files = site_files(rules)
    for name, page in files.items():
        write_file(folder / name, page)
    return len(files)


BOM = "\ufeff".encode()
LATIN_1 = "iso-8859-1"
_WIDE = {
    "utf-32-le": b"\xff\xfe\x00\x00",
    "utf-32-be": b"\x00\x00\xfe\xff",
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
}
"""Encodings whose characters have two or four bytes, with their byte order marks; the longer ones come first."""
_BY_ZEROS = dict(
    zip(
        [(False, True, True, True), (True, True, True, False), (False, True, False, True), (True, False, True, False)],
        _WIDE,
        strict=True,
    )
)
"""Which of four bytes are mostly zero in a text in Latin letters."""
_HEAD_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LintTask:
    """What the command line asked for, files of the run included."""

    choice: LintChoice
    today: date
    kind: str | None = None
    lint_config: Path | None = None
    baseline: Path | None = None
    write_baseline: Path | None = None
    prune_baseline: bool = False
    fix: bool = False
    unsafe: bool = False
    diff: bool = False


class WriteFile(Protocol):
    """Replaces a file as a whole."""

    def __call__(self, path: Path, data: bytes, mode: int = 0o644) -> None:
        """Write under another name, then rename."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPorts:
    """What a run needs of the outside; `read_files` and `read_live` are called once."""

    read_input: Callable[[Path, int], bytes]
    write_file: WriteFile
    replace_file: Callable[[Path, bytes], object]
    read_files: Callable[[], Sequence[FileReading]]
    read_live: Callable[[], Sequence[Pieces]]
    say: Callable[[str], None]


def run_lint(task: LintTask, ports: LintPorts) -> LintDone:
    """Carry out a run. Files are written only with `fix`, each as a whole, after everything was checked.

    Raises `UsageError` and `InputError` for what cannot be used, and when there is nothing to lint.
    """
    if task.fix and task.diff:
        raise UsageError("--fix changes files and --diff only shows the changes", hint="give one of them")
    config = read_config(task.lint_config, ports.read_input)
    baseline_path = task.baseline or _named_baseline(config)
    baseline = _baseline(baseline_path, task, ports)
    request = lint_request(task.choice, config, task.today, baseline, str(baseline_path or ""))
    files, live = ports.read_files(), ports.read_live()
    if task.choice.each and live:
        raise UsageError("--each judges files on their own, and --live a whole cluster", hint="give one of them")
    _tell_unread(files, ports.say)
    if not live and not any(file.kinds or file.pieces.problems for file in files):
        raise UsageError("nothing to lint: no file of a known kind was found", hint="docs/lint.md lists the kinds")
    if task.fix or task.diff:
        run = fix_all(files, live, request, task.kind, unsafe=task.unsafe)
    else:
        run = FixedRun(linted=lint_for_fixes(files, live, request, task.kind))
    unchecked = run.linted.result.unchecked
    if unchecked:
        names = ", ".join(sanitize(path) for path in unchecked[:MOST_LISTED])
        ports.say(f"nothing was checked of {names}: lint does not know the kind; --kind names it")
    if task.fix:
        _write_fixes(run, ports)
    if task.write_baseline is not None:
        ports.write_file(task.write_baseline, encode_baseline(run.linted.unaccepted))
        number = count_of(len(run.linted.unaccepted), "finding")
        ports.say(f"wrote {task.write_baseline}: it accepts {number}")
    if task.prune_baseline and baseline is not None and baseline_path is not None:
        ports.write_file(baseline_path, prune_baseline(baseline, run.linted.unaccepted))
        ports.say(f"pruned {baseline_path}")
    return LintDone(run=run, fail_on=fail_on_of(task.choice, config))


MOST_LISTED = 50


def _tell_unread(files: Sequence[FileReading], say: Callable[[str], None]) -> None:
    unread = sorted(file.document.path for file in files if file.speaks)
    if unread:
        more = f" and {len(unread) - MOST_LISTED} more" if len(unread) > MOST_LISTED else ""
        names = ", ".join(sanitize(path) for path in unread[:MOST_LISTED])
        what = count_of(len(unread), "file")
        say(f"not checked, of Kafka but in a form that lint does not read: {what}: {names}{more}")


def _named_baseline(config: LintConfig) -> Path | None:
    named = config.settings.baseline
    if named is None or config.path is None:
        return None
    return Path(config.path).parent / named


def _baseline(path: Path | None, task: LintTask, ports: LintPorts) -> Baseline | None:
    if task.prune_baseline and path is None:
        raise UsageError("--prune-baseline needs a baseline", hint="name it with --baseline FILE")
    return None if path is None else decode_baseline(ports.read_input(path, BASELINE_LIMIT_BYTES), str(path))


def _write_fixes(run: FixedRun, ports: LintPorts) -> None:
    for change in run.changed:
        path, text = Path(change.path), change.before.text
        before = ports.read_input(path, len(text.encode()) + len(BOM))
        coding = "utf-8" if before.removeprefix(BOM) == text.encode() else LATIN_1
        if before.removeprefix(BOM) != text.encode(coding, "replace"):
            raise UsageError(f"{path} changed while it was linted; nothing was written to it", hint="run again")
        mark = BOM if before.startswith(BOM) else b""
        ports.replace_file(path, mark + change.after.text.encode(coding))
    if run.changed:
        ports.say(f"fixed {count_of(run.fixed, 'finding')} in {count_of(len(run.changed), 'file')}")


ENTRY_POINTS = "kafkakit.lint_rules"
"""The group of entry points; each names a sequence of `LintRule`, and is loaded when the configuration names it."""
CONFIG_LIMIT_BYTES = 1 << 20


def read_config(path: Path | None, read_input: Callable[[Path, int], bytes]) -> LintConfig:
    """The lint configuration of a file, the empty one without a file; with all rules."""
    if path is None:
        return read_lint_config(None, all_rules(), _of_packages)
    data = read_input(path, CONFIG_LIMIT_BYTES)
    return read_lint_config(sound_document(data, path.as_posix(), ANY_FILE), all_rules(), _of_packages)


def _of_packages(names: Sequence[str]) -> tuple[LintRule, ...]:
    from importlib.metadata import entry_points

    found: list[LintRule] = []
    for name in names:
        entries = entry_points(group=ENTRY_POINTS, name=name)
        if not entries:
            raise UsageError(
                f"no installed package has lint rules called {name!r:.60}", hint=f"entry point {ENTRY_POINTS}"
            )
        for entry in entries:
            try:
                rules = tuple(entry.load())
            except Exception as error:  # a package's own code, which may raise anything
                raise InputError(f"package {entry.value}", f"its rules cannot be loaded: {error!r:.200}") from None
            if not all(isinstance(rule, LintRule) for rule in rules):
                raise InputError(f"package {entry.value}", "holds something that is not a LintRule")
            found += rules
    return tuple(found)


STDIN = "-"
MAX_FILES = 100_000
MAX_DEPTH = 64
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "target", "site-packages"})


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to lint; `is_named` is True where it was given by its own name. `problem` is why it cannot be read."""

    path: str
    is_named: bool
    problem: str | None = None


@dataclass(slots=True)
class _Walk:
    folders: set[tuple[int, int]] = field(default_factory=set)
    files: set[tuple[int, int]] = field(default_factory=set)
    found: int = 0


def find_files(paths: Sequence[str]) -> tuple[FoundFile, ...]:
    """The files below some paths, each once: named ones as they are, in folders those with a known suffix.

    Hidden files and folders are skipped, a folder that several links lead to is walked once. Raises `UsageError` for a
    path that does not exist, too many files and folders too deep.
    """
    walk = _Walk()
    found: dict[str, FoundFile] = {}
    for path in paths:
        for file in _files_below(path, walk):
            known = found.get(file.path)
            if known is None or (file.is_named and not known.is_named):
                found[file.path] = file
    return tuple(found.values())


def _files_below(path: str, walk: _Walk) -> Iterator[FoundFile]:
    if path == STDIN:
        yield FoundFile(STDIN, is_named=True)
        return
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file or folder") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path!r:.300}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    clean = os.path.normpath(path)
    if not stat.S_ISDIR(status.st_mode):
        yield FoundFile(clean, is_named=True)
        return
    walk.folders.add((status.st_dev, status.st_ino))
    yield from _in_folder("" if clean == "." else clean, walk, 1)


def _in_folder(folder: str, walk: _Walk, depth: int) -> Iterator[FoundFile]:
    if depth > MAX_DEPTH:
        raise UsageError(f"{folder:.300}: folders are nested deeper than {MAX_DEPTH} levels")
    try:
        with os.scandir(folder or ".") as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield FoundFile(folder or ".", is_named=False, problem=f"cannot be listed: {error.strerror}")
        return
    for entry in listed:
        if entry.name.startswith("."):
            continue
        path = os.path.join(folder, entry.name)
        try:
            status = entry.stat()
        except OSError:
            continue  # a link that leads nowhere
        identity = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            if entry.name not in SKIPPED_FOLDERS and identity not in walk.folders:
                walk.folders.add(identity)
                yield from _in_folder(path, walk, depth + 1)
        elif stat.S_ISREG(status.st_mode) and suffix_of(entry.name) in SUFFIXES and identity not in walk.files:
            if status.st_nlink > 1 or entry.is_symlink():
                walk.files.add(identity)
            walk.found += 1
            if walk.found > MAX_FILES:
                raise UsageError(f"more than {MAX_FILES:,} files to lint", hint="name the folders that hold the files")
            yield FoundFile(path, is_named=False)


ReadInput = Callable[[Path, int], bytes]


def read_files(
    paths: Sequence[str], kind: str | None, stdin_filename: str, read_input: ReadInput
) -> tuple[FileReading, ...]:
    """Find and read all files; those of folders that are no concern of lint are left out.

    Args:
        paths: Files, folders, and `-` for stdin.
        kind: The kind that every file must be read as, None to detect it.
        stdin_filename: The name that findings in stdin get, and that tells its format and kind.
        read_input: Reads a file with a limit in bytes.

    Raises `UsageError` for a path or a kind that does not exist.
    """
    if kind is not None:
        kind_named(kind)
    return tuple(_readings(find_files(paths), kind, stdin_filename, read_input))


def _readings(
    files: Sequence[FoundFile], kind: str | None, stdin_filename: str, read_input: ReadInput
) -> Iterator[FileReading]:
    for file in files:
        name = stdin_filename if file.path == STDIN else file.path.replace("\\", "/")
        reading = _read(file, name, kind, read_input)
        if reading is None:
            continue
        if file.is_named or reading.kinds or reading.pieces.problems:
            yield reading
        elif reading.speaks:
            yield replace(reading, document=Document(name, "", reading.document.format))


def _read(file: FoundFile, name: str, kind: str | None, read_input: ReadInput) -> FileReading | None:
    """The reading of a file; None for one of a folder that is plainly no concern of lint."""
    if file.problem is not None:
        return unreadable_reading(name, file.problem)
    is_json = suffix_of(name) == ".json"
    try:
        data = read_input(Path(file.path), SNAPSHOT_LIMIT_BYTES if file.is_named and is_json else LIMIT_BYTES)
    except InputError as error:
        # Large JSON files of folders are the data of other tools.
        return (
            None
            if is_json and not file.is_named and not looks_known(name, "")
            else unreadable_reading(name, error.problem)
        )
    wide = _wide_encoding(data)
    if wide is not None:
        what = f"is {wide[:6].upper()} text, which neither Kafka nor the tools around it read: save it as UTF-8"
        return _read_misencoded(file, name, kind, data.decode(wide, "replace").removeprefix("\ufeff"), what)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if SUFFIXES.get(suffix_of(name)) == "properties" and b"\x00" not in data:
            # As Java reads properties.
            return read_text(name, data.decode(LATIN_1), kind, is_named=file.is_named)
        before = error.object[: error.start].decode("utf-8", "replace").removeprefix("\ufeff")
        byte = len(data) - len(error.object) + error.start
        what = "a zero byte: this is not a text file" if "\x00" in before else f"not valid UTF-8 text (byte {byte})"
        return _read_misencoded(file, name, kind, data.removeprefix(BOM).decode("utf-8", "replace"), what, before)
    return read_text(name, text, kind, is_named=file.is_named)


def _read_misencoded(
    file: FoundFile, name: str, kind: str | None, text: str, problem: str, before: str = ""
) -> FileReading | None:
    """The reading of a file in another encoding: a problem if its text, as well as it can be read, is of a kind."""
    reading = read_text(name, text, kind)
    if reading.kinds or reading.pieces.problems or kind is not None or looks_known(name, text):
        return unreadable_reading(name, problem, before)
    if file.is_named:
        return foreign_reading(name, problem, before)
    return reading if reading.speaks else None


def _wide_encoding(data: bytes) -> str | None:
    """The encoding of a text whose characters have two or four bytes, by its byte order mark or its zero bytes."""
    marked = next((name for name, mark in _WIDE.items() if data.startswith(mark)), None)
    if marked is not None:
        return marked
    first, second, third, fourth = (
        2 * part.count(0) > len(part) for part in (data[at:_HEAD_BYTES:4] for at in range(4))
    )
    return _BY_ZEROS.get((first, second, third, fourth))


def read_live(
    admin: ClusterAdmin, name: str | None, now: datetime, topics: str | None, read_tags: Callable[[], TagSet]
) -> Pieces:
    """Read a cluster with three kinds of request; 200,000 partitions take some seconds.

    `topics` are the names or the query of those that are linted (None: all); tags are read where it looks at some.
    Raises `KafkakitError` when the cluster cannot be reached or a right is missing, `UsageError` where none matches.
    """
    snapshot = admin.snapshot(now=now)
    if topics is not None:
        snapshot = with_topics(snapshot, topics, read_tags)
    alive = [broker.id for broker in snapshot.brokers if broker.is_alive]
    return live_pieces(snapshot, admin.broker_configs(alive), name)


def with_topics(snapshot: ClusterSnapshot, wanted: str, read_tags: Callable[[], TagSet]) -> ClusterSnapshot:
    """The cluster without the topics that are not meant; tags are read where a query needs them.

    Raises `UsageError` where none matches.
    """
    from kafkakit.core.query import TOPIC_KEYS, tag_keys, topic_table, topics_where, why_none
    from kafkakit.core.query_text import parse_query
    from kafkakit.core.selection import parse_patterns, query_of, select_topics

    query = query_of(wanted)
    if query is None:
        chosen = set(select_topics([t.name for t in snapshot.topics], parse_patterns(wanted)).selected)
    else:
        node = parse_query(query)
        if tag_keys(node, TOPIC_KEYS):
            snapshot = replace(snapshot, tags=read_tags())
        chosen = set(topics_where(snapshot, node))
        if not chosen:
            error = UsageError(f"no topic matches {wanted!r:.200}")
            error.lines = why_none(node, topic_table(snapshot))
            raise error
    return replace(snapshot, topics=tuple(t for t in snapshot.topics if t.name in chosen))


def live_pieces(
    snapshot: ClusterSnapshot, configs: Mapping[int, Mapping[str, LayeredValue]], name: str | None
) -> Pieces:
    """What was read, as pieces of the cluster `name`."""
    from kafkakit.core.cluster_facts import ConfigLayer

    defaults = {
        key: _declared_value(key, value)
        for values in configs.values()
        for key, value in values.items()
        if value.layer is ConfigLayer.DYNAMIC_DEFAULT
    }
    return Pieces(
        clusters=(
            ClusterPiece(
                place=None,
                name=name,
                version=snapshot.kafka_version,
                dynamic_default=defaults,
                moves_running=bool(snapshot.reassignments),
                is_live=True,
            ),
        ),
        brokers=tuple(_broker(broker, configs.get(broker.id), name) for broker in snapshot.brokers),
        topics=tuple(
            TopicPiece(
                name=topic.name,
                place=None,
                cluster=name,
                configs={key: DeclaredValue(value, ValueSource.TOPIC) for key, value in topic.configs.items()},
                partitions=len(topic.partitions),
                replication_factor=seen_replication(topic),
                partition_facts=seen_partitions(topic),
                is_declared=False,
            )
            for topic in snapshot.topics
        ),
    )


def _broker(broker: Broker, values: Mapping[str, LayeredValue] | None, cluster: str | None) -> BrokerPiece:
    seen = seen_broker(broker, cluster, None)
    if values is None:
        return seen
    own: dict[ValueSource, dict[str, DeclaredValue]] = {source: {} for source in ValueSource}
    for key, value in values.items():
        declared = _declared_value(key, value)
        own[declared.source][key] = declared
    return replace(seen, static=own[ValueSource.STATIC], dynamic=own[ValueSource.DYNAMIC_BROKER], is_known=True)


def _declared_value(key: str, value: LayeredValue) -> DeclaredValue:
    text = HIDDEN if value.value is None else without_secret(key, value.value)
    return DeclaredValue(text, ValueSource[value.layer.name])
