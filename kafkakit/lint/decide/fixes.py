"""Fixes: linting and editing texts until nothing is left to fix, in memory.

Only the entries named change; comments, order, quotes and line ends stay.

That a fix is safe is proven: every subject of the run must be configured as before by the edited files, since an edit
may reach several of them. A value counts as dead if Kafka does not read it: a coarser form beside a finer one,
retention of a topic that is only compacted, a key that the version no longer has. Beside those only the keys that a
finding names may differ, at the subject that it names. If no file tells the version, nothing is dead because of it.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from kafkakit.core.findings import FailOn, Finding
from kafkakit.core.yaml_json import UNPARSABLE, Document, Mapping, MappingEntry, Node, Scalar
from kafkakit.lint.decide.decision import LintRequest, LintRun, estate_of, fix_of, lint
from kafkakit.lint.decide.files import FileReading, read_text, without_selector
from kafkakit.lint.decide.kinds.kind import LITERAL, without_secret
from kafkakit.lint.decide.pieces import Pieces
from kafkakit.rules.config_defs import MINORS, ConfigDef, KeyScope, ValueType, config_table, is_gone
from kafkakit.rules.effective import TIME_FORMS, BrokerConfig, Configs, TopicConfig, to_items
from kafkakit.rules.engine import RuleFinding
from kafkakit.rules.judging import base_key
from kafkakit.rules.rule import Edit, Fix, Subject
from kafkakit.rules.subjects import Estate, LintAgent, LintBroker, LintCluster, LintConnector, LintTopic
from kafkakit.rules.values import holds_placeholder, looks_secret

MOST_PASSES = 10
GENERATED = frozenset({"cluster-snapshot", "terraform-plan", "terraform"})
"""Kinds that programs write, so that a fix would be lost, and those whose text lint cannot edit."""
MOST_TRIALS = 200
"""How many sets of edits are tried for one run; what is not proven by then is offered as unsafe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that changed, from its first document to its last, and the findings that were fixed."""

    before: Document
    after: Document
    applied: tuple[RuleFinding, ...]

    @property
    def path(self) -> str:
        """The file."""
        return self.before.path


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedRun:
    """What is left after fixing, and each file that changed, from its first text to its last."""

    linted: LintRun
    changed: tuple[FileChange, ...] = ()

    @property
    def fixed(self) -> int:
        """How many findings were fixed."""
        return sum(len(change.applied) for change in self.changed)

    @property
    def diff(self) -> str:
        """All changes as one unified diff."""
        return "".join(shown_diff(change.before, change.after) for change in self.changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintDone:
    """What a run found and changed, and from which severity on it fails."""

    run: FixedRun
    fail_on: FailOn

    def with_hints(self, called: Callable[[str], str]) -> "LintDone":
        """These findings, with the commands in their hints called as `called` says."""
        linted = self.run.linted
        checked = tuple(
            replace(c, finding=replace(c.finding, hint=called(c.finding.hint))) for c in linted.result.checked
        )
        result = replace(linted.result, checked=checked)
        return replace(self, run=replace(self.run, linted=replace(linted, result=result)))


def fix_all(
    files: Sequence[FileReading], live: Sequence[Pieces], request: LintRequest, kind: str | None, *, unsafe: bool
) -> FixedRun:
    """Fix what can be fixed, look again, at most ten times; findings that are accepted are left alone."""
    now = list(files)
    applied: dict[str, list[RuleFinding]] = {}
    linted = lint_for_fixes(now, live, request, kind)
    for _ in range(MOST_PASSES):
        by_path: dict[str, list[RuleFinding]] = {}
        for item in linted.result.checked:
            if item.anchor is not None:
                by_path.setdefault(item.anchor.place.path, []).append(item)
        changed = False
        for number, reading in enumerate(now):
            path = reading.document.path
            if path not in by_path:
                continue
            fixed = _fix_file(reading, by_path[path], kind, unsafe=unsafe)
            if fixed.after != reading.document.text:
                applied.setdefault(path, []).extend(fixed.applied)
                now[number] = read_text(path, fixed.after, kind, is_named=True)
                changed = True
        if not changed:
            break
        linted = lint_for_fixes(now, live, request, kind)
    first = {reading.document.path: reading.document for reading in files}
    last = {reading.document.path: reading.document for reading in now}
    return FixedRun(
        linted=linted,
        changed=tuple(
            FileChange(before=first[path], after=last[path], applied=tuple(items))
            for path, items in sorted(applied.items())
            if first[path].text != last[path].text
        ),
    )


_COMMA_BEHIND = re.compile(r"\s*,\s*")
_CLOSING = re.compile(r"(?:[\s,]++|#[^\r\n]*+)*+[\]}]")
_PLAIN = re.compile(r"-?[A-Za-z0-9_./][A-Za-z0-9_./:,-]*")


class TextEdit(NamedTuple):
    """The half-open range of a text to replace."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedFile:
    """A file after its fixes, and the findings that they are for."""

    after: str
    applied: tuple[RuleFinding, ...]


def shown_diff(before: Document, after: Document) -> str:
    """A change of a file as a unified diff, with secrets hidden."""
    from difflib import unified_diff

    lines = unified_diff(
        _without_secrets(before).splitlines(keepends=True),
        _without_secrets(after).splitlines(keepends=True),
        f"a/{before.path}",
        f"b/{before.path}",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def fixed_document(document: Document, checked: Sequence[RuleFinding], *, unsafe: bool) -> FixedFile:
    """Apply the edits of findings in a file; of edits that overlap the first wins, and the others wait for a next pass.

    A finding is fixed as a whole or not at all. Linear in the size of the document.
    """
    index = _entries_by_offset(document)
    taken: list[TextEdit] = []
    applied = []
    for item in checked:
        edits = list(text_edits(document, index, item, unsafe=unsafe))
        if edits and not any(_overlap(one, other) for one in edits for other in taken):
            taken += edits
            applied.append(item)
    text = document.text
    for edit in sorted(set(taken), key=lambda e: (e.start, e.end), reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return FixedFile(after=text, applied=tuple(applied))


class LocatedEntry(NamedTuple):
    """An entry and the mapping that it stands in; `is_shared` if aliases or merges repeat it elsewhere."""

    parent: Mapping
    entry: MappingEntry
    is_shared: bool = False


def text_edits(
    document: Document, index: dict[int, LocatedEntry], item: RuleFinding, *, unsafe: bool
) -> Iterator[TextEdit]:
    """The edits of one finding as ranges of the text; none where one of them cannot be made."""
    anchor, wanted = item.anchor, item.edits
    if anchor is None or not wanted or not (unsafe or all(edit.is_safe for edit in wanted)):
        return
    offset = document.offset(anchor.place.line, anchor.place.column)
    comment = without_selector(document, offset, anchor.key)
    if comment is not None:
        yield TextEdit(*comment)
        return
    held = index.get(offset)
    if held is None or held.entry.key.text != anchor.key:
        return  # a value that was made of another field, or a whole resource
    if not unsafe and held.is_shared and item.rule.subject is not Subject.FILE:
        return  # it stands in several places; of a repeated key one goes from all of them
    if any(holds_placeholder(part) for part in (held.entry.key.text, _scalar_text(held.entry))):
        return
    found = [_text_edit(document, held, edit) for edit in wanted]
    if all(edit is not None for edit in found):
        yield from (edit for edit in found if edit is not None)


def _scalar_text(entry: MappingEntry) -> str:
    return entry.value.text if isinstance(entry.value, Scalar) else ""


def _text_edit(document: Document, held: LocatedEntry, edit: Edit) -> TextEdit | None:
    parent = held.parent
    entry = held.entry if held.entry.key.text == edit.key else parent.entries.get(edit.key)
    if entry is None:
        return None if edit.value is None else _insertion(document, held, edit.key, edit.value)
    if edit.rename is not None:
        return TextEdit(entry.key.start, entry.key.end, _write_as(document, entry.key, edit.rename, parent))
    if edit.value is None:
        return _deletion(document, LocatedEntry(parent, entry))
    if not isinstance(entry.value, Scalar):
        return None
    return TextEdit(entry.value.start, entry.value.end, _write_as(document, entry.value, edit.value, parent))


def _write_as(document: Document, like: Scalar, text: str, parent: Mapping) -> str:
    """A text written as the scalar that it replaces: with the same quotes, or more where it needs some."""
    if document.format == "properties":
        return _escape_text(text)
    quote = "" if like.is_plain else document.text[like.start : like.start + 1]
    if document.format == "json":
        return text if like.is_plain and re.fullmatch(r"-?\d+|true|false", text) else json.dumps(text)
    if quote == "'":
        return "'" + text.replace("'", "''") + "'"
    if quote == '"' or _PLAIN.fullmatch(text) is None or (parent.is_flow and "," in text):
        return json.dumps(text, ensure_ascii=False)
    return text


def _insertion(document: Document, held: LocatedEntry, key: str, value: str) -> TextEdit | None:
    """The new entry behind the one that is there, in the style of its neighbour."""
    text, entry = document.text, held.entry
    if not isinstance(entry.value, Scalar):
        return None
    new_key, new_value = (
        _write_as(document, entry.key, key, held.parent),
        _write_as(document, entry.value, value, held.parent),
    )
    line_start = document.offset(document.place(entry.key.start).line)
    before = text[line_start : entry.key.start]
    at = _line_end(text, entry.value.end)
    end_of_line = "\r\n" if "\r\n" in (text[max(line_start - 2, 0) : line_start], text[at : at + 2]) else "\n"
    if held.parent.is_flow or document.format == "json":
        gap = f",{end_of_line}{before}" if not before.strip() else ", "
        return TextEdit(entry.value.end, entry.value.end, f"{gap}{new_key}: {new_value}")
    if document.format == "properties":
        return TextEdit(at, at, f"{end_of_line}{new_key}={new_value}")
    indent = re.sub(r"\S", " ", before)
    return TextEdit(at, at, f"{end_of_line}{indent}{new_key}: {new_value}")


def _deletion(document: Document, held: LocatedEntry) -> TextEdit | None:
    text, entry = document.text, held.entry
    value_end = _last_offset(text, entry.value)
    if value_end is None:
        return None
    if held.parent.is_flow or document.format == "json":
        return _deletion_in_flow(text, held, value_end)
    line_start = document.offset(document.place(entry.key.start).line)
    end = _line_end(text, value_end)
    rest = text[value_end:end].strip()
    if text[line_start : entry.key.start].strip() or (rest and not rest.startswith("#")):
        return None  # `- key: value`: the line holds more than this entry
    if len(held.parent.entries) == 1 and document.format == "yaml":
        return None  # an empty block would mean null
    return TextEdit(line_start, min(_after_line_end(text, end), len(text)), "")


def _last_offset(text: str, node: Node) -> int | None:
    """Where a value ends; None for a block without values, whose end the tree does not keep."""
    if isinstance(node, Scalar):
        return node.end
    children = [e.value for e in node.entries.values()] if isinstance(node, Mapping) else node.items
    ends = [_last_offset(text, child) for child in children]
    if None in ends:
        return None
    last = max((end for end in ends if end is not None), default=None)
    if not node.is_flow:
        return last
    closing = _CLOSING.match(text, node.start + 1 if last is None else last)
    return closing.end() if closing else None


def _deletion_in_flow(text: str, held: LocatedEntry, value_end: int) -> TextEdit:
    """The entry with the comma behind it, else with the one before it; a key may stand there more than once."""
    start = held.entry.key.start
    behind = _COMMA_BEHIND.match(text, value_end)
    if behind is not None:
        return TextEdit(start, behind.end(), "")
    before = len(text[:start].rstrip())
    return TextEdit(before - 1 if text[before - 1 : before] == "," else start, value_end, "")


def _entries_by_offset(document: Document) -> dict[int, LocatedEntry]:
    found: dict[int, LocatedEntry] = {}
    shared: set[int] = set()
    values: set[int] = set()
    queue: list[Node] = list(document.roots)
    while queue:
        node = queue.pop()
        if isinstance(node, Mapping):
            for entry in node.entries.values():
                if entry.key.start in found:
                    shared.add(entry.key.start)
                if entry.value.start in values:
                    shared.add(entry.value.start)
                values.add(entry.value.start)
                if _holds_better(node, found.get(entry.key.start), entry):
                    found[entry.key.start] = LocatedEntry(node, entry)
                if isinstance(entry.value, Scalar):
                    found.setdefault(entry.value.start, LocatedEntry(node, entry))
                queue.append(entry.value)
        elif not isinstance(node, Scalar):
            queue += node.items
    return {at: held._replace(is_shared=_is_any(shared, at, held.entry)) for at, held in found.items()}


def _is_any(shared: set[int], at: int, entry: MappingEntry) -> bool:
    return not shared.isdisjoint((at, entry.key.start, entry.value.start))


def _without_secrets(document: Document) -> str:
    hidden = []
    for held in {id(h.entry): h for h in _entries_by_offset(document).values()}.values():
        key, value = held.entry
        if isinstance(value, Scalar) and value.text:
            shown = LITERAL if looks_secret(key.text) else without_secret(key.text, value.text)
            if shown != value.text:
                hidden.append(TextEdit(value.start, value.end, shown))
    text = document.text
    for edit in sorted(hidden, reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def _holds_better(node: Mapping, known: LocatedEntry | None, entry: MappingEntry) -> bool:
    """True where an entry is written in this mapping, not merged into it from an anchor."""
    at = entry.key.start
    return known is None or known.parent.start > at or known.parent.start < node.start <= at


def _overlap(one: TextEdit, other: TextEdit) -> bool:
    if one == other:
        return one.start == one.end  # the same insertion twice
    return (one.start < other.end and other.start < one.end) or (one.start == one.end == other.start == other.end)


def _line_end(text: str, offset: int) -> int:
    found = re.compile(r"[\r\n]").search(text, offset)
    return found.start() if found else len(text)


def _after_line_end(text: str, offset: int) -> int:
    return offset + (2 if text[offset : offset + 2] == "\r\n" else 1)


def _escape_text(text: str) -> str:
    special: Iterable[tuple[str, str]] = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
    for plain, escape in special:
        text = text.replace(plain, escape)
    return "\\" + text if text[:1] == " " else text


def lint_for_fixes(
    files: Sequence[FileReading], live: Sequence[Pieces], request: LintRequest, kind: str | None
) -> LintRun:
    """Lint, and keep of the fixes those that can be made; a fix that is not proven to be safe is unsafe.

    Every safe fix is made in memory and the edited files are read again: all subjects must be configured as before.
    The fixes are tried together, then in halves, so that sound ones cost one reading of the files that they edit.
    """
    linted = lint(files, live, request)
    places = [item.anchor.place.path for item in linted.result.checked if item.edits and item.anchor is not None]
    if not places:
        return linted
    fixing = _FixRun(files, live, request, kind, linted)
    possible = [fixing.possible(item) for item in linted.result.checked]
    proven = fixing.proven([item for item in possible if fix_of(item) is Fix.SAFE])
    checked = tuple(
        item if fix_of(item) is not Fix.SAFE or id(item) in proven else _as_unsafe(item) for item in possible
    )
    return replace(linted, result=replace(linted.result, checked=checked))


def _as_unsafe(item: RuleFinding) -> RuleFinding:
    return replace(item, edits=tuple(replace(edit, is_safe=False) for edit in item.edits))


class _FixRun:
    """The trials of one run of lint."""

    def __init__(
        self,
        files: Sequence[FileReading],
        live: Sequence[Pieces],
        request: LintRequest,
        kind: str | None,
        linted: LintRun,
    ) -> None:
        self._files = files
        self._live = live
        self._request = request
        self._kind = kind
        self._linted = linted
        self._readings = {reading.document.path: reading for reading in files}
        self._indexes: dict[str, dict[int, LocatedEntry]] = {}
        self._is_mapped = any(cluster.is_version_mapped for cluster in linted.estate.clusters)
        self._trials = 0

    def possible(self, item: RuleFinding) -> RuleFinding:
        """The finding without its edits if they cannot be made: in files of programs, templates, of mapped versions."""
        reading = self._readings.get(item.anchor.place.path) if item.anchor is not None else None
        if not item.edits or reading is None:
            return item
        if self._is_mapped or reading.is_template or GENERATED.intersection(reading.kinds):
            return replace(item, edits=())
        index = self._index(reading.document)
        if not any(True for _ in text_edits(reading.document, index, item, unsafe=True)):
            return replace(item, edits=())
        if fix_of(item) is Fix.SAFE and not any(True for _ in text_edits(reading.document, index, item, unsafe=False)):
            return _as_unsafe(item)
        return item

    def _index(self, document: Document) -> dict[int, LocatedEntry]:
        known = self._indexes.get(document.path)
        if known is None:
            known = self._indexes[document.path] = _entries_by_offset(document)
        return known

    def proven(self, items: Sequence[RuleFinding]) -> set[int]:
        """The identities of the findings whose fixes change no configuration, all of them together."""
        sound: list[RuleFinding] = []
        waiting = [list(items)] if items else []
        while waiting and self._trials < MOST_TRIALS:
            some = waiting.pop()
            if self._is_sound([*sound, *some]):
                sound += some
            elif len(some) > 1:
                half = len(some) // 2
                waiting += [some[half:], some[:half]]
        return set(map(id, sound))

    def _is_sound(self, items: Sequence[RuleFinding]) -> bool:
        self._trials += 1
        by_path: dict[str, list[RuleFinding]] = {}
        for item in items:
            if item.anchor is not None:
                by_path.setdefault(item.anchor.place.path, []).append(item)
        edited = {path: self._edited(self._readings[path], some) for path, some in by_path.items()}
        if None in edited.values():
            return False
        after = [edited.get(reading.document.path) or reading for reading in self._files]
        named = {(w, edit.key) for item in items for w in subjects_named(item.finding) for edit in item.edits}
        return is_same_configuration(self._linted.estate, estate_of(after, self._live, self._request), named)

    def _edited(self, reading: FileReading, items: Sequence[RuleFinding]) -> FileReading | None:
        """The file with its edits made, read again; None if it can no longer be read as what it was."""
        after = fixed_document(reading.document, items, unsafe=False).after
        again = read_text(reading.document.path, after, self._kind, is_named=True)
        return again if _reads_as(reading, again) else None


def _reads_as(before: FileReading, after: FileReading) -> bool:
    """True if nothing of a file became unreadable."""
    unread = [sum(p.rule == UNPARSABLE for p in reading.document.problems) for reading in (before, after)]
    wrong = [sum(p.rule == UNPARSABLE for p in reading.pieces.problems) for reading in (before, after)]
    return unread[1] <= unread[0] and wrong[1] <= wrong[0] and before.kinds == after.kinds


def _fix_file(reading: FileReading, items: Sequence[RuleFinding], kind: str | None, *, unsafe: bool) -> FixedFile:
    """The file with those fixes with which it can still be read as what it was."""
    document = reading.document
    fixed = fixed_document(document, items, unsafe=unsafe)
    if fixed.after == document.text or _reads_as(reading, read_text(document.path, fixed.after, kind, is_named=True)):
        return fixed
    kept: list[RuleFinding] = []
    for item in items[:MOST_TRIALS]:
        tried = fixed_document(document, [*kept, item], unsafe=unsafe).after
        if _reads_as(reading, read_text(document.path, tried, kind, is_named=True)):
            kept.append(item)
    return fixed_document(document, kept, unsafe=unsafe)


Named = Collection[tuple[str, str]]
"""Subjects, as findings name them, with the keys that may differ there."""

_CONFIGURED = frozenset({"config", "settings", "groups", "places", "cluster", "judged"})
_RETENTION = ("retention.ms", "retention.bytes")
_FORMS = (
    *(tuple(form for form, _ in forms) for key, forms in TIME_FORMS.items() if key != "log.flush.interval.ms"),
    ("log.dirs", "log.dir"),
)


def subjects_named(finding: Finding) -> Iterator[str]:
    """The subjects of a finding, each as a finding of its own would name it."""
    if not finding.subjects:
        yield finding.where
        return
    _, of, cluster = finding.where.partition(" of ")
    yield from (f"{name}{of}{cluster}" for name in finding.subjects)


def is_same_configuration(before: Estate, after: Estate, named: Named) -> bool:
    """True when all subjects are configured as before, but for dead values and the named keys.

    Linear in the subjects and in the keys that they set.
    """
    pairs = (*zip_longest(before.agents, after.agents), *zip_longest(before.connectors, after.connectors))
    return (
        len(before.clusters) == len(after.clusters)
        and all(_is_same_cluster(*pair, named) for pair in zip(before.clusters, after.clusters, strict=True))
        and all(_is_same_settings(one, other, named) for one, other in pairs)
    )


def _is_same_cluster(before: LintCluster, after: LintCluster, named: Named) -> bool:
    if before.table is not after.table or before.is_version_known != after.is_version_known:
        return False
    if len(before.brokers) != len(after.brokers) or len(before.topics) != len(after.topics):
        return False
    brokers = zip(before.brokers, after.brokers, strict=True)
    topics = zip(before.topics, after.topics, strict=True)
    others = {"brokers", "topics"}
    return (
        _identity(before, others) == _identity(after, others)
        and all(_is_same_broker(one, other, before, named) for one, other in brokers)
        and all(_is_same_topic(one, other, before, named) for one, other in topics)
    )


def _identity(subject: object, others: Collection[str] = ()) -> tuple[object, ...]:
    """What a subject is, beside its configuration and its places."""
    return tuple(
        getattr(subject, field.name)
        for field in fields(subject)  # type: ignore[arg-type]  # every subject is a dataclass
        if field.compare and not field.name.endswith("place") and field.name not in {*_CONFIGURED, *others}
    )


def _is_same_broker(before: LintBroker, after: LintBroker, cluster: LintCluster, named: Named) -> bool:
    if _identity(before) != _identity(after) or before.config.is_known != after.config.is_known:
        return False
    layers = zip(_layers(before.config), _layers(after.config), strict=True)
    touched = {key for pair in layers for key in _touched_keys(*pair)}
    wanted = touched | {forms[0] for forms in _FORMS if not touched.isdisjoint(forms)}
    where = cluster.within(before.where)
    for key in wanted:
        old, new = _broker_value(before.config, cluster, key), _broker_value(after.config, cluster, key)
        if old != new and not _is_named(cluster, KeyScope.BROKER, (where, key), before.config.declared(key), named):
            return False
    return True


def _is_same_topic(before: LintTopic, after: LintTopic, cluster: LintCluster, named: Named) -> bool:
    if _identity(before) != _identity(after):
        return False
    wanted = set(_touched_keys(before.config.overrides, after.config.overrides))
    inherited = zip(_layers(before.config.broker), _layers(after.config.broker), strict=True)
    if any(True for one, other in inherited for _ in _touched_keys(one, other)):
        wanted |= cluster.table.topic.keys()
    where = cluster.within(before.where)
    for key in wanted:
        old, new = _topic_value(before, cluster, key), _topic_value(after, cluster, key)
        if old != new and not _is_named(cluster, KeyScope.TOPIC, (where, key), before.config.overrides.get(key), named):
            return False
    return True


def _layers(config: BrokerConfig) -> tuple[Configs, Configs, Configs]:
    return config.static, config.dynamic_default, config.dynamic


def _touched_keys(before: Configs, after: Configs) -> Iterator[str]:
    """The keys that one side lacks, or has with another text."""
    if before is after:
        return
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        if old is None or new is None or old.text != new.text:
            yield key


Value = str | tuple[str, ...] | None


def _broker_value(config: BrokerConfig, cluster: LintCluster, key: str) -> Value:
    """The value of a broker key as Kafka reads it; None for a dead one."""
    for forms in _FORMS:
        finer = forms[: forms.index(key)] if key in forms else ()
        if any(_is_certain(config, form) for form in finer):
            return None
    definition = cluster.table.broker.get(base_key(key))
    if definition is None and _is_gone(cluster, KeyScope.BROKER, key):
        return None
    if definition is None or key != definition.name:  # with the prefix of a listener there is no default
        declared = config.declared(key)
        return None if declared is None else _read(definition, declared.text)
    return _read(definition, config.text(key))


def _is_certain(config: BrokerConfig, key: str) -> bool:
    declared = config.declared(key)
    return declared is not None and bool(declared.text.strip()) and not holds_placeholder(declared.text)


def _topic_value(topic: LintTopic, cluster: LintCluster, key: str) -> Value:
    definition = cluster.table.topic.get(key)
    if definition is None and _is_gone(cluster, KeyScope.TOPIC, key):
        return None
    if key in _RETENTION and topic.config.is_sure("cleanup.policy") and topic.policies == ("compact",):
        return None
    if definition is None:
        declared = topic.config.overrides.get(key)
        return None if declared is None else declared.text
    return _read(definition, _text_of(topic.config, key))


def _text_of(config: TopicConfig, key: str) -> str:
    # What a broker's file would say of a key that the topic sets is not known where there is no such file.
    return config.text(key) if config.is_sure(key) else f"{config.text(key)} unless brokers set it"


def _read(definition: ConfigDef | None, text: str) -> Value:
    return tuple(dict.fromkeys(to_items(text))) if definition and definition.type is ValueType.LIST else text


def _is_gone(cluster: LintCluster, scope: KeyScope, key: str) -> bool:
    if not cluster.is_version_known:
        return False
    return is_gone(scope, base_key(key) if scope is KeyScope.BROKER else key, cluster.table.version)


def _is_named(cluster: LintCluster, scope: KeyScope, subject: tuple[str, str], declared: object, named: Named) -> bool:
    """True for a key that a finding names, unless it was the default's text that went, or the version is assumed."""
    if subject not in named or any(subject[1] in forms for forms in _FORMS):
        return False  # of forms of one setting it is known which is dead
    key = base_key(subject[1]) if scope is KeyScope.BROKER else subject[1]
    definition = cluster.table.find(scope, key)
    text = getattr(declared, "text", None)
    if definition is not None and text is not None and definition.default == text.strip():
        return False  # it went for being the default, which something else replaces
    return cluster.is_version_known or _is_alike_in_all(scope, key)


@cache
def _is_alike_in_all(scope: KeyScope, key: str) -> bool:
    """True when every version has the key, with one default."""
    found = [config_table(minor).find(scope, key) for minor in MINORS]
    return None not in found and len({d.default for d in found if d is not None}) == 1


def _is_same_settings(
    before: LintAgent | LintConnector | None, after: LintAgent | LintConnector | None, named: Named
) -> bool:
    if before is None or after is None or type(before) is not type(after) or _identity(before) != _identity(after):
        return False
    where = before.where
    old, new = _texts(before), _texts(after)
    changed = {key for key in {**old, **new} if old.get(key) != new.get(key)}
    if isinstance(before, LintAgent) and isinstance(after, LintAgent) and before.groups != after.groups:
        changed.discard("consumer_groups")
        if not _is_named_in_groups(before, after, where, named):
            return False
    return all((where, key) in named for key in changed)


def _texts(subject: LintAgent | LintConnector) -> dict[str, str]:
    values = subject.settings if isinstance(subject, LintAgent) else subject.config
    return {key: declared.text for key, declared in values.items()}


def _is_named_in_groups(before: LintAgent, after: LintAgent, where: str, named: Named) -> bool:
    """True when what left the listed groups is what findings name: the whole list, groups, or topics."""
    if (where, "consumer_groups") in named:
        return True
    old, new = _paths(before), _paths(after)
    return new.items() <= old.items() and all(
        any((where, name) in named for name in path) for path in old.keys() - new.keys()
    )


def _paths(agent: LintAgent) -> dict[tuple[str, ...], tuple[int, ...]]:
    groups = agent.groups or {}
    found: dict[tuple[str, ...], tuple[int, ...]] = {(group,): () for group in groups}
    return found | {(group, name): parts for group, topics in groups.items() for name, parts in topics.items()}
