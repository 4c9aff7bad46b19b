"""A file's text into pieces: which format it is in, and of which of all kinds it is.

The format follows from the name of the file, else from its first lines. Comments that say another time or size than the
value next to them are problems of the file (KKV014).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from kafkakit.config.client_properties import locate_properties
from kafkakit.core.columns import without_collector
from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Place
from kafkakit.core.quantities import format_bytes, format_span
from kafkakit.core.yaml_json import (
    DUPLICATE_KEY,
    MAX_LINES,
    UNPARSABLE,
    Comment,
    CommentAt,
    Document,
    MappingEntry,
    Node,
    Scalar,
    TextProblem,
    duplicate_key,
    read_json,
    read_yaml,
)
from kafkakit.core.yaml_json import Mapping as MappingNode
from kafkakit.core.yaml_json import Sequence as SequenceNode
from kafkakit.lint.decide.kinds import (
    ansible,
    containers,
    datadog,
    kafka_tools,
    kafkakit,
    operators,
    terraform,
    topics_as_code,
)
from kafkakit.lint.decide.kinds.kind import FileKind, join_pieces
from kafkakit.lint.decide.pieces import FileProblem, Pieces
from kafkakit.lint.decide.templates import alternatives, branches_of
from kafkakit.rules.effective import to_int
from kafkakit.rules.rule import Edit
from kafkakit.rules.values import holds_placeholder

UNKNOWN_KIND = "KKL007"
BYTE_ORDER_MARK = "KKL012"
MOST_PROBLEMS = 1_000
"""How many problems of syntax and repeated keys are kept for one file."""
_TEMPLATE = re.compile(r"\{\{|\{%|<%")
_TELLING = re.compile(
    r"kafkakit: *cluster|kafka\.strimzi\.io/|kafka_connect_str|bootstrapAddrs|replicationFactor|replication_factor"
    r"|retention\.ms|min\.insync\.replicas|process\.roles|log\.dirs|connector\.class|cluster-snapshot"
    r"|^(?:topics|brokers):[ \t]*$",
    re.MULTILINE,
)
_SPEAKING = re.compile(
    r"\bKAFKA_[A-Z]\w+|\b(?:kafka\.strimzi\.io|platform\.confluent\.io|kafka\.jikkou\.io|kafka\.banzaicloud\.io)/"
    r"|\bserver\.properties\b|\b(?:process\.roles|advertised\.listeners|zookeeper\.connect|connector\.class)\b"
    r"|\b(?:debezium\.(?:source|sink)\.\w|DEBEZIUM_(?:SOURCE|SINK)_\w)|\b(?:min\.insync\.replicas|retention\.ms|replication\.factor|kafka_topic|kafka_connect_str)\b"
)
"""What configures Kafka, its topics or its connectors, in whatever format."""
KINDS: Mapping[str, FileKind] = {
    kind.name: kind
    for kind in (
        kafkakit.CLUSTER_KIND,
        operators.STRIMZI_KIND,
        topics_as_code.CONFLUENT_KIND,
        topics_as_code.KOPERATOR_KIND,
        topics_as_code.JIKKOU_KIND,
        containers.KUBERNETES_KIND,
        containers.COMPOSE_KIND,
        containers.HELM_KIND,
        kafka_tools.TOPICCTL_KIND,
        topics_as_code.JULIE_KIND,
        topics_as_code.GITOPS_KIND,
        ansible.ANSIBLE_KIND,
        kafka_tools.TERRAFORM_KIND,
        terraform.TERRAFORM_SOURCE_KIND,
        kafka_tools.REASSIGNMENT_KIND,
        datadog.CONSUMER_KIND,
        datadog.JMX_KIND,
        kafka_tools.DEBEZIUM_SERVER_KIND,
        kafka_tools.CONNECTOR_KIND,
        kafka_tools.WORKER_KIND,
        kafka_tools.SERVER_KIND,
        kafkakit.SNAPSHOT_KIND,
    )
}
"""In the order in which they are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """One file as read: its document, the kinds found in it (none for a file that is no concern of lint), pieces.

    `speaks` is True for a file that speaks of Kafka and of which nothing was read.
    """

    document: Document
    kinds: tuple[str, ...]
    pieces: Pieces
    speaks: bool = False
    is_template: bool = False
    """The text has statements of a template; `pieces` are those of its first branches."""
    alternatives: tuple[Pieces, ...] = ()
    """What it declares with further branches."""


def read_text(path: str, text: str, kind: str | None = None, is_named: bool = False) -> FileReading:
    """Read one file's text; never raises but for a kind that does not exist.

    Args:
        path: Names the file in places, and tells the format and the kind where the content does not.
        text: The content, decoded.
        kind: The name of the kind it must be read as, None to detect it.
        is_named: The file was given by its name, so an unknown kind is a problem.
    """
    if text.startswith("\ufeff"):
        reading = read_text(path, text[1:], kind, is_named)
        return _with_byte_order_mark(reading) if reading.document.format == "properties" and reading.kinds else reading
    forced = kind_named(kind) if kind is not None else None
    with without_collector():
        form = SUFFIXES.get(suffix_of(path))
        # HCL has templates of its own inside of texts, whose values are not known.
        texts = (text,) if form == "hcl" else alternatives(text, is_yaml=is_named and form == "yaml")
        if texts == (text,):
            return _read(path, text, forced, is_named)
        return _read_template(text, [_read(path, one, forced, is_named) for one in texts])


def _with_byte_order_mark(reading: FileReading) -> FileReading:
    """The reading of a properties file that begins with a byte order mark, which Java does not skip."""
    first = next((key for root in reading.document.roots if isinstance(root, MappingNode) for key in root.entries), "")
    problem = FileProblem(
        rule=BYTE_ORDER_MARK,
        message=f"the file begins with a byte order mark, which Java reads as part of the first key: {first:.80} is "
        "not set",
        place=reading.document.place(0),
        key=first or None,
    )
    return replace(reading, pieces=replace(reading.pieces, problems=(*reading.pieces.problems, problem)))


def _read_template(text: str, readings: Sequence[FileReading]) -> FileReading:
    """One file whose branches were read as alternatives: what is wrong with any of them, each problem once."""
    first, *others = readings
    branch_at = branches_of(text)
    problems: dict[FileProblem, None] = {}
    comments: set[CommentAt] = set()
    for reading in readings:
        document = reading.document
        apart = {
            document.place(p.at)
            for p in document.problems
            if p.rule == DUPLICATE_KEY and branch_at(p.at) != branch_at(p.first_at)
        }
        for problem in reading.pieces.problems:
            is_apart = problem.rule == DUPLICATE_KEY and problem.place in apart
            is_unknown = problem.rule == UNKNOWN_KIND and any(some.kinds for some in readings)
            if not is_apart and not is_unknown:
                problems[replace(problem, edits=())] = None
        comments.update(document.comments_at)
    return FileReading(
        document=replace(first.document, text=text, comments_at=tuple(sorted(comments))),
        kinds=tuple(dict.fromkeys(kind for reading in readings for kind in reading.kinds)),
        pieces=replace(first.pieces, problems=tuple(problems)),
        speaks=all(reading.speaks for reading in readings),
        is_template=True,
        alternatives=tuple(replace(reading.pieces, problems=()) for reading in others),
    )


def _read(path: str, text: str, forced: FileKind | None, is_named: bool) -> FileReading:
    if forced is kafkakit.SNAPSHOT_KIND or (forced is None and kafkakit.is_snapshot(text)):
        whole = Document(path, text, "json")
        return FileReading(
            document=whole, kinds=(kafkakit.SNAPSHOT_KIND.name,), pieces=kafkakit.SNAPSHOT_KIND.read(whole, ())
        )
    document = read_document(path, text, forced.formats if forced is not None else ())
    by_kind = _by_kind(document, forced)
    pieces = [KINDS[name].read(document, tuple(roots)) for name, roots in by_kind.items()]
    is_broken = not document.roots and document.has_broken_syntax
    is_cut = is_named and len(text) > LIMIT_BYTES
    is_concern = (
        bool(by_kind) or forced is not None or is_cut or (document.has_broken_syntax and looks_known(path, text))
    )
    problems = _problems(document, is_concern)
    if by_kind:
        problems = (*problems, *comment_problems(document))
    elif is_named and not problems:
        problems = (_unknown(document, is_broken),)
    found = join_pieces([*pieces, Pieces(problems=problems)])
    if len(by_kind) > 1:  # a resource that is read as several kinds accepts once
        found = replace(found, accepted=tuple({piece.place: piece for piece in found.accepted}.values()))
    return FileReading(
        document=document,
        kinds=tuple(by_kind),
        pieces=_without_filled_in_names(found, text),
        speaks=not is_concern and speaks_of_kafka(text),
    )


def _without_filled_in_names(pieces: Pieces, text: str) -> Pieces:
    """The pieces with clusters whose names a template fills in left unnamed."""
    if not holds_placeholder(text):
        return pieces

    def known(name: str | None) -> str | None:
        return None if name is not None and holds_placeholder(name) else name

    return replace(
        pieces,
        clusters=tuple(replace(piece, name=known(piece.name)) for piece in pieces.clusters),
        brokers=tuple(replace(piece, cluster=known(piece.cluster)) for piece in pieces.brokers),
        topics=tuple(replace(piece, cluster=known(piece.cluster)) for piece in pieces.topics),
    )


def kind_named(name: str) -> FileKind:
    """The kind of a name; `UsageError` for one that does not exist."""
    found = KINDS.get(name)
    if found is None:
        raise UsageError(f"unknown kind of file: {name!r:.60}", hint=f"kinds: {', '.join(sorted(KINDS))}")
    return found


def _by_kind(document: Document, forced: FileKind | None) -> dict[str, list[Node]]:
    """The documents of a file by kind: each is of one, and may carry settings of others."""
    found: dict[str, list[Node]] = {}
    carried = [kind for kind in KINDS.values() if any(mark in document.text for mark in kind.marks)]
    for root in document.roots:
        kind = forced or _kind_of(document, root)
        if kind is not None:
            found.setdefault(kind.name, []).append(root)
        for other in carried if forced is None else ():
            if other is not kind and other.carries(root):
                found.setdefault(other.name, []).append(root)
    return found


def _kind_of(document: Document, root: Node) -> FileKind | None:
    able = [kind for kind in KINDS.values() if document.format in kind.formats]
    recognised = next((kind for kind in able if kind.recognise(root)), None)
    if recognised is not None or not isinstance(root, MappingNode):
        return recognised
    return next((kind for kind in able if _matches(document.path, kind.patterns) and kind.may_be(root)), None)


def speaks_of_kafka(text: str) -> bool:
    """True for a text that configures something of Kafka, in whatever format."""
    return _SPEAKING.search(text) is not None


def looks_known(path: str, text: str) -> bool:
    """True for a file that would be of a known kind if it could be read; templates of other tools are not.

    The name counts in YAML only, in which nothing is known of what stands behind a mistake.
    """
    if _TEMPLATE.search(text):
        return False
    if suffix_of(path) == ".tf":
        return terraform.TELLING.search(text) is not None
    if suffix_of(path) not in (".yaml", ".yml"):
        return _TELLING.search(text) is not None
    return _TELLING.search(text) is not None or any(_matches(path, kind.patterns) for kind in KINDS.values())


def _matches(path: str, patterns: Sequence[str]) -> bool:
    slashed = "/" + path.replace("\\", "/").lower()
    slashed = next((slashed.removesuffix(end) for end in _OF_TEMPLATES if slashed.endswith(end)), slashed)
    return any(fnmatchcase(slashed, f"*/{pattern}") for pattern in patterns)


def _problems(document: Document, is_concern: bool) -> tuple[FileProblem, ...]:
    if not is_concern:
        return ()
    return tuple(
        FileProblem(
            rule=p.rule,
            message=p.message,
            place=document.place(p.at),
            key=p.key,
            edits=(Edit(p.key, is_safe=True),) if p.key is not None and p.is_repeated_value else (),
        )
        for p in document.problems[:MOST_PROBLEMS]
    )


def _unknown(document: Document, is_broken: bool) -> FileProblem:
    why = f", and cannot be read: {document.problems[0].message}" if is_broken else ""
    return FileProblem(
        rule=UNKNOWN_KIND,
        message=f"lint does not know this kind of file, so it was not checked{why}",
        place=document.place(document.problems[0].at) if is_broken else Place(document.path, 1),
    )


def foreign_reading(path: str, problem: str, before: str = "") -> FileReading:
    """The reading of a file given by its name that cannot be read, and that nothing tells to be Kafka's."""
    document = Document(path, before, "yaml", problems=(TextProblem(UNPARSABLE, problem, len(before)),))
    return FileReading(document=document, kinds=(), pieces=Pieces(problems=(_unknown(document, is_broken=True),)))


def unreadable_reading(path: str, message: str, before: str = "") -> FileReading:
    """The reading of a file that could not be read at all; `before` is the text up to where that shows."""
    document = Document(path, before, "yaml")
    problem = FileProblem(rule=UNPARSABLE, message=message, place=document.place(len(before)))
    return FileReading(document=document, kinds=(), pieces=Pieces(problems=(problem,)))


_STATEMENTS = ("{%", "{{", "{#", "<%")
"""What a line of a template begins with that configures nothing."""
COMMENT_IN_VALUE = "KKL010"
_COMMENT_IN_VALUE = re.compile(r"[#!][ \t]*kafkakit:[ \t]*(?:file-)?ignore", re.IGNORECASE)


def read_properties(path: str, text: str) -> Document:
    """Read a properties text; bad escapes are problems with their places, never exceptions."""
    located = locate_properties(text)
    root = MappingNode({}, located.entries[0].name_at.start if located.entries else 0)
    problems = []
    for entry in located.entries:
        if entry.name.startswith(_STATEMENTS):
            continue
        key = Scalar(entry.name, *entry.name_at)
        value = Scalar(entry.value, *entry.value_at, False)
        if entry.problem is not None:
            problems.append(TextProblem(UNPARSABLE, f"not a valid property: {entry.problem}", key.start, key.text))
        at = _COMMENT_IN_VALUE.search(text, *entry.value_at)
        if at is not None:
            told = f"the suppression is a part of the value of {entry.name:.100}: put it on a line of its own"
            problems.append(TextProblem(COMMENT_IN_VALUE, told, at.start(), entry.name))
        before = root.entries.get(entry.name)
        if before is not None:
            problems.append(duplicate_key(key, before.value, value))
        root.entries[entry.name] = MappingEntry(key, value)
    comments = tuple(CommentAt(*comment) for comment in located.comments)
    return Document(path, text, "properties", (root,), tuple(problems), comments)


SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".properties": "properties", ".tf": "hcl"}
MAX_PROPERTIES_LINES = 200_000
MAX_PROPERTIES_CHARACTERS = 8 * 2**20
LIMIT_BYTES = 64 * 2**20
"""The largest file that is read as a located tree."""
SNAPSHOT_LIMIT_BYTES = 512 * 2**20
"""The largest snapshot, which is decoded in one pass."""

_ASSIGNMENT = re.compile(r"[A-Za-z][\w.-]*[ \t]*=")
_FIRST_LINE = re.compile(r"^[ \t]*([^\s#!].*)$", re.MULTILINE)


_OF_TEMPLATES = (".j2", ".jinja", ".jinja2", ".erb", ".tmpl", ".tpl", ".template")


def suffix_of(path: str) -> str:
    """The end of a file's name from its last point on, in lower case; of a template the end of what it becomes."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    bare = next((name.removesuffix(end) for end in _OF_TEMPLATES if name.endswith(end)), name)
    _, point, end = bare.rpartition(".")
    return point + end if bare == name or point + end in SUFFIXES else name[len(bare) :]


def read_document(path: str, text: str, formats: tuple[str, ...] = ()) -> Document:
    """Read a text as a located tree; never raises.

    Args:
        path: Names the file in places; its suffix tells the format.
        text: The content, decoded, with its byte order mark if it has one.
        formats: The formats that it may have where the kind of file is known, the likeliest first.
    """
    form = _format(path, text, formats)
    refused = _refusal_of(text, form)
    if refused is not None:
        return Document(path, text, form, problems=(refused,))
    match form:
        case "json":
            return read_json(path, text)
        case "properties":
            return read_properties(path, text)
        case "hcl":
            return terraform.read_hcl(path, text)
    return read_yaml(path, text)


def _refusal_of(text: str, form: str) -> TextProblem | None:
    """Why a text is not read at all."""
    zero = text.find("\x00")
    if zero >= 0:
        return TextProblem(UNPARSABLE, "a zero byte: this is not a text file", zero)
    conflict = text.find("<<<<<<< ")
    if conflict >= 0 and text[conflict - 1 : conflict] in ("", "\n") and "\n>>>>>>> " in text:
        return TextProblem(UNPARSABLE, "a merge conflict is not resolved: nothing of the file was checked", conflict)
    if len(text) > LIMIT_BYTES:
        return TextProblem(UNPARSABLE, f"is larger than {LIMIT_BYTES:,} bytes", 0)
    if form == "properties" and len(text) > MAX_PROPERTIES_CHARACTERS:
        return TextProblem(UNPARSABLE, f"more than {MAX_PROPERTIES_CHARACTERS:,} characters of properties", 0)
    most = MAX_PROPERTIES_LINES if form == "properties" else MAX_LINES
    if len(text) > most and _lines(text) > most:
        return TextProblem(UNPARSABLE, f"more than {most:,} lines", 0)
    return None


def _lines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _format(path: str, text: str, formats: tuple[str, ...]) -> str:
    by_name = SUFFIXES.get(suffix_of(path))
    if by_name is not None and (not formats or by_name in formats):
        return by_name
    by_content = _format_of_content(text)
    return by_content if not formats or by_content in formats else formats[0]


def _format_of_content(text: str) -> str:
    found = _FIRST_LINE.search(text)
    first = found.group(1) if found else ""
    if first[:1] in ("{", "["):
        return "json"
    return "properties" if _ASSIGNMENT.match(first) else "yaml"


_SUPPRESSION = re.compile(r"#\s*kafkakit:\s*(?:file-ignore|ignore)\s*\[([^\]]*)\][^#\r\n]*")


def without_selector(document: Document, offset: int, selector: str) -> tuple[int, int, str] | None:
    """The range of the text to replace, and by what; the comment goes with its last selector.

    None where no comment begins at the offset, or it holds something else too.
    """
    at = next((c for c in document.comments_at if c.start == offset), None)
    found = _SUPPRESSION.fullmatch(document.text, at.start, at.end) if at is not None else None
    if at is None or found is None:
        return None
    kept = [name for part in found[1].split(",") if (name := part.strip()) and name != selector]
    if kept:
        return found.start(1), found.end(1), ", ".join(kept)
    text = document.text
    line = document.place(at.start).line
    start = document.offset(line)
    if text[start : at.start].strip():
        return len(text[: at.start].rstrip(" \t")), at.end, ""
    is_last = line == len(document.line_starts)
    return start, len(text) if is_last else document.offset(line + 1), ""


RULE = "KKV014"
TOLERANCE = 0.01

_MS = {"ms": 1, "millis": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "hr": 3_600_000,
       "hrs": 3_600_000, "d": 86_400_000, "w": 604_800_000}  # fmt: skip
_LONG_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000,
            "week": 604_800_000, "year": 31_536_000_000}  # fmt: skip
_MS |= {word + end: ms for word, ms in _LONG_MS.items() for end in ("", "s")}
_MS |= {"secs": 1_000, "mins": 60_000}
_POWERS = {"b": 0, "byte": 0, "bytes": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_QUANTITY = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)?)\s*([A-Za-z]+)\b")
# What a key's last word makes of its number, in milliseconds.
_KEY_MS = {".ms": 1, ".minutes": 60_000, ".hours": 3_600_000, ".seconds": 1_000}


def comment_problems(document: Document) -> Iterator[FileProblem]:
    """The comments at the end of a line that name one time or size, and not that of the key on the line.

    Linear in the file's entries; nothing is compared where a comment holds no quantity, or more than one.
    """
    trailing = {comment.line: comment for comment in document.comments if not comment.own_line}
    if not trailing:
        return
    for entry in _entries(document.roots):
        key = entry.key.text
        if not key.endswith((*_KEY_MS, ".bytes")) or not isinstance(entry.value, Scalar):
            continue
        place = document.place(entry.key.start)
        comment, number = trailing.get(place.line), to_int(entry.value.text)
        if comment is None or number is None or number < 0:
            continue
        said = _stated_amounts(key, comment)
        if said and not any(_is_near(number, value) for value in said):
            yield FileProblem(
                rule=RULE,
                message=f"the comment says {comment.text.lstrip('# ').strip()!r:.60}, but {key} is {number}, "
                f"which is {_show_amount(key, number)}",
                place=place,
                key=key,
            )


def _entries(nodes: Iterable[Node]) -> Iterator[MappingEntry]:
    """All entries of some trees; nodes that aliases share are visited once."""
    waiting, seen = list(nodes), set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scalar) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            waiting.extend(node.items)
            continue
        yield from node.entries.values()
        waiting.extend(entry.value for entry in node.entries.values())


def _stated_amounts(key: str, comment: Comment) -> tuple[float, ...]:
    """What the comment's one quantity may mean in the key's unit; none when it has none, or several."""
    is_size = key.endswith(".bytes")
    readings = [_size(*found) if is_size else _time(key, *found) for found in _QUANTITY.findall(comment.text)]
    known = [reading for reading in readings if reading]
    return known[0] if len(known) == 1 else ()


def _time(key: str, number: str, unit: str) -> tuple[float, ...]:
    ms = _unit(_MS, unit)
    factor = next(ms_ for end, ms_ in _KEY_MS.items() if key.endswith(end))
    return () if ms is None else (float(number.replace(",", ".")) * ms / factor,)


def _size(number: str, unit: str) -> tuple[float, ...]:
    power = _POWERS.get(unit.lower())
    if power is None:
        stem = unit.lower().removesuffix("b").removesuffix("i")
        power = _POWERS.get(stem) if len(stem) == 1 else None
    if power is None:
        return ()
    amount = float(number.replace(",", "."))
    return (amount * 1000**power, amount * 1024**power)


def _unit(units: dict[str, int], unit: str) -> int | None:
    return units.get(unit if len(unit) == 1 else unit.lower())


def _is_near(number: int, said: float) -> bool:
    return abs(number - said) <= TOLERANCE * max(abs(said), 1)


def _show_amount(key: str, number: int) -> str:
    if key.endswith(".bytes"):
        return format_bytes(number)
    factor = next(ms for end, ms in _KEY_MS.items() if key.endswith(end))
    return format_span(number * factor / 1000)
