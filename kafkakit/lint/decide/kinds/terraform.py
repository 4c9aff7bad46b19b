"""Terraform's own language (HCL): topics and the configurations of Amazon MSK.

Expressions are worked out as far as they are literal: locals of the same file, arithmetic, `for_each` and `for` over
literal collections, a few functions. Everything else (variables, data, other resources) is a value that is not known,
written as a reference, and no rule judges it. A resource whose instances are not known is one topic.

The parser is loaded, in about 0.4 s, for a file that has such a resource; others are not parsed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkakit.core.yaml_json import (
    ANY_FILE,
    UNPARSABLE,
    CommentAt,
    Document,
    MappingEntry,
    Node,
    Scalar,
    TextProblem,
)
from kafkakit.core.yaml_json import Mapping as MappingNode
from kafkakit.core.yaml_json import Sequence as SequenceNode
from kafkakit.lint.decide.kinds.kafka_tools import TOPIC_RESOURCES, resource_topic
from kafkakit.lint.decide.kinds.kind import DocumentReader, FileKind, of_each, properties_in, roles_of
from kafkakit.lint.decide.membership import NodeIdentity
from kafkakit.lint.decide.pieces import BrokerPiece, Pieces, TopicPiece
from kafkakit.rules.config_defs import minor_or_none
from kafkakit.rules.effective import Configs, DeclaredValue, ValueSource, to_int
from kafkakit.rules.subjects import NO_HOST, HostFacts
from kafkakit.rules.values import holds_placeholder

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_CHARACTERS = 2 * 2**20
"""The largest file that is parsed, at about 100,000 characters a second."""
MOST_LEVELS = 60
MOST_INSTANCES = 5_000
REST = "${...}"
"""The key of a mapping of which more is not known."""
USUAL_KEYS = (
    "cleanup.policy", "compression.type", "delete.retention.ms", "flush.messages", "flush.ms", "max.compaction.lag.ms",
    "max.message.bytes", "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms",
    "min.insync.replicas", "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes", "segment.ms",
    "unclean.leader.election.enable",
)  # fmt: skip
"""Settings of topics that are not known where a part of the configuration is not."""
MSK, MSK_CLUSTER = "aws_msk_configuration", "aws_msk_cluster"
_READ = frozenset({*TOPIC_RESOURCES, MSK, MSK_CLUSTER})
TELLING = re.compile(rf'resource[ \t]+"?(?:{"|".join((*TOPIC_RESOURCES, MSK))})"?[ \t]')
"""The beginning of a resource that lint reads."""
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([nrt"\\]))')
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_HEREDOC = re.compile(r"<<(-?)[\w.-]+\r?\n", re.ASCII)
_SPACE = re.compile(r"\s+")
_EXPONENT = re.compile(r"-?\d+(?:\.\d+)?(?:[eE]\+?\d{1,2})?")
_MINOR = re.compile(r"(\d+\.\d+)(?:\..*)?")


class _UnknownError(Exception):
    """An expression that is not literal."""


class _MissingError(_UnknownError):
    """An attribute or element that a known collection does not have."""


Scope = Mapping[str, Node]


def read_hcl(path: str, text: str) -> Document:
    """Read a text of HCL as a located tree of the resources that lint knows; never raises.

    The root maps addresses (`kafka_topic.orders["a"]`) to the fields of the resource. A text without such a resource
    is not parsed.
    """
    if not TELLING.search(text):
        return Document(path, text, "hcl", (MappingNode({}, 0),))
    if len(text) > MAX_CHARACTERS:
        problem = TextProblem(UNPARSABLE, f"more than {MAX_CHARACTERS:,} characters of Terraform", 0)
        return Document(path, text, "hcl", problems=(problem,))
    from hcl2.parser import parser
    from lark.exceptions import LarkError, UnexpectedInput

    try:
        tree = parser().parse(text + "\n")
    except UnexpectedInput as error:
        at = min(max(error.pos_in_stream or 0, 0), len(text))
        return Document(path, text, "hcl", problems=(TextProblem(UNPARSABLE, "not valid HCL", at),))
    except (LarkError, RecursionError):
        return Document(path, text, "hcl", problems=(TextProblem(UNPARSABLE, "not valid HCL", 0),))
    reader = _HclReader(text)
    root = reader.root(_child(tree, "body"))
    comments = tuple(_comments(tree))
    return Document(path, text, "hcl", (root,), (), comments)


def _comments(tree: "Tree[Token]") -> Iterator[CommentAt]:
    for token in _tokens(tree):
        body = token.lstrip()
        if token.type == "NL_OR_COMMENT" and body.startswith(("#", "//")) and token.start_pos is not None:
            start = token.start_pos + len(token) - len(body)
            yield CommentAt(start, start + len(body.rstrip("\r\n")))


def _tokens(tree: "Tree[Token]") -> "Iterator[Token]":
    """All tokens in order, however deep."""
    from lark import Token

    waiting: list[Tree[Token] | Token] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Token):
            yield part
        else:
            waiting += reversed(part.children)


def _child(tree: "Tree[Token]", name: str) -> "Tree[Token]":
    return next(child for child in _trees(tree) if child.data == name)


def _trees(tree: "Tree[Token]") -> "list[Tree[Token]]":
    from lark import Tree

    return [child for child in tree.children if isinstance(child, Tree)]


@dataclass(slots=True)
class _HclReader:
    """Works out the resources of one text."""

    text: str
    locals: "dict[str, Tree[Token]]" = field(default_factory=dict)
    working: set[str] = field(default_factory=set)
    """Locals that are being worked out, so that one that names itself ends."""
    values: int = 0

    def root(self, body: "Tree[Token]") -> MappingNode:
        """The resources by their addresses."""
        blocks = [_Block.of(tree) for tree in _trees(body) if tree.data == "block"]
        for block in blocks:
            if block.words == ("locals",):
                self.locals |= block.attributes
        found: dict[str, MappingEntry] = {}
        for block in blocks:
            if len(block.words) == 3 and block.words[0] == "resource" and block.words[1] in _READ:
                for address, node in self._instances(block):
                    found[address] = MappingEntry(Scalar(address, block.start, block.start), node)
        return MappingNode(found, 0)

    def _instances(self, block: "_Block") -> Iterator[tuple[str, MappingNode]]:
        address = f"{block.words[1]}.{block.words[2]}"
        each = block.attributes.get("for_each")
        if "count" in block.attributes:
            count = self._or_unknown(block.attributes["count"], {})
            if isinstance(count, Scalar) and count.text in ("0", "false"):
                return
        if each is None:
            yield address, self._fields(block, {})
            return
        instances = self._elements(self._or_unknown(each, {}))
        if instances is None or len(instances) > MOST_INSTANCES:
            yield address, self._fields(block, {})
            return
        for key, value in instances:
            scope = {"each": MappingNode({"key": MappingEntry(key, key), "value": MappingEntry(key, value)}, key.start)}
            yield f'{address}["{key.text}"]', self._fields(block, scope)

    def _fields(self, block: "_Block", scope: Scope) -> MappingNode:
        """The attributes of a block, and its blocks as lists of mappings by their type."""
        found = {}
        for name, expression in block.attributes.items():
            start = block.starts[name]
            found[name] = MappingEntry(Scalar(name, start, start + len(name)), self._or_unknown(expression, scope))
        for inner in block.blocks:
            is_dynamic = inner.words[0] == "dynamic" and len(inner.words) > 1
            name = inner.words[1] if is_dynamic else inner.words[0]
            nodes = self._made(inner, scope) if is_dynamic else [self._fields(inner, scope)]
            before = found.get(name)
            items = before.value.items if before is not None and isinstance(before.value, SequenceNode) else []
            found[name] = MappingEntry(
                Scalar(name, inner.start, inner.start), SequenceNode([*items, *nodes], inner.start)
            )
        return MappingNode(found, block.start)

    def _made(self, block: "_Block", scope: Scope) -> list[Node]:
        """The blocks that a dynamic one makes; one of which nothing is known where it is not known how many."""
        each = block.attributes.get("for_each")
        content = next((inner for inner in block.blocks if inner.words == ("content",)), None)
        made = self._elements(self._or_unknown(each, scope)) if each is not None and content is not None else None
        if made is None or content is None:
            at = Scalar(REST, block.start, block.start, False)
            return [MappingNode({REST: MappingEntry(at, at)}, block.start)]
        found: list[Node] = []
        for key, value in made[:MOST_INSTANCES]:
            own = MappingNode({"key": MappingEntry(key, key), "value": MappingEntry(key, value)}, key.start)
            found.append(self._fields(content, {**scope, block.words[1]: own}))
        return found

    def _or_unknown(self, tree: "Tree[Token]", scope: Scope, level: int = 0) -> Node:
        try:
            return self._value(tree, scope, level)
        except _UnknownError:
            start, end = _range(tree)
            return _unknown(self.text[start:end], start, end)

    def _elements(self, node: Node) -> list[tuple[Scalar, Node]] | None:
        """What `for_each` and `for` go over: keys and values; None where not all of it is known."""
        if isinstance(node, MappingNode) and REST not in node.entries:
            return [(Scalar(key, *entry.key[1:3]), entry.value) for key, entry in node.entries.items()]
        if isinstance(node, SequenceNode) and all(isinstance(i, Scalar) and not _is_unknown(i) for i in node.items):
            return [(item, item) for item in node.items if isinstance(item, Scalar)]
        return None

    def _value(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """The value of an expression; `_UnknownError` for one that is not literal."""
        self.values += 1
        if level > MOST_LEVELS or self.values > ANY_FILE.values:
            raise _UnknownError
        work = _WORK.get(str(tree.data))
        if work is None:
            raise _UnknownError
        return work(self, tree, scope, level + 1)

    def local(self, name: str, level: int) -> Node:
        """The value of a local of this file."""
        tree = self.locals.get(name)
        if tree is None or name in self.working:
            raise _UnknownError
        self.working.add(name)
        try:
            return self._value(tree, {}, level)
        finally:
            self.working.discard(name)

    def term(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """What stands in brackets, or is one value."""
        return self._value(_only_child(tree), scope, level)

    def number(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A number, true or false; null has no value."""
        del scope, level
        start, end = _range(tree)
        return Scalar(_without_exponent(self.text[start:end]), start, end)

    def name(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A bare name: of what `for` or `for_each` goes over."""
        del level
        found = scope.get(_text_of(tree))
        if found is None:
            raise _UnknownError
        return found

    def string(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A text, with what is filled in where that is known."""
        start, end = _range(tree)
        parts = []
        for part in _trees(tree):
            inner = _trees(part)
            if not inner:
                parts.append(_unescape(_text_of(part)))
            elif inner[0].data == "interpolation":
                node = self._or_unknown(_only_child(inner[0]), scope, level)
                parts.append(node.text if isinstance(node, Scalar) else _unknown("...", 0, 0).text)
            else:
                parts.append(_unknown("template", 0, 0).text)
        return Scalar("".join(parts), start, end, False)

    def heredoc(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A text of several lines; what is filled in is not known."""
        del scope, level
        start, end = _range(tree)
        found = _HEREDOC.match(self.text, start)
        body = self.text[found.end() if found else start : end].rstrip()
        body = body[: body.rfind("\n") + 1]
        return Scalar(body.replace("$${", "${"), start, end, False)

    def tuple(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A list; items that are not known stay in it as such."""
        items = [self._or_unknown(item, scope, level) for item in _expressions(tree)]
        return SequenceNode(items, _range(tree)[0], True)

    def object(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """An object; entries whose keys are not known are one with the key `REST`."""
        found: dict[str, MappingEntry] = {}
        for element in (child for child in _trees(tree) if child.data == "object_elem"):
            at, expression = _expressions(element)
            try:
                key = self._key(_only_child(at), scope, level)
            except _UnknownError:
                key = Scalar(REST, *_range(element))
            found[key.text] = MappingEntry(key, self._or_unknown(expression, scope, level))
        return MappingNode(found, _range(tree)[0], True)

    def _key(self, tree: "Tree[Token]", scope: Scope, level: int) -> Scalar:
        start, end = _range(tree)
        inner = _only_child(tree) if tree.data == "expr_term" and len(_trees(tree)) == 1 else tree
        if inner.data in ("identifier", "keyword") and self.text[start : start + 1] != "(":
            return Scalar(_text_of(inner), start, end)
        node = self._value(tree, scope, level)
        if not isinstance(node, Scalar) or _is_unknown(node):
            raise _UnknownError
        return Scalar(node.text, start, end)

    def attribute(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A field of a local, of what is gone over, or of a value."""
        base, step = _trees(tree)
        name = _text_of(_only_child(step))
        inner = _trees(base)
        if base.data == "expr_term" and inner and inner[0].data == "identifier" and _text_of(inner[0]) == "local":
            return self.local(name, level)
        return _field(self._value(base, scope, level), name)

    def index(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """An element of a collection, by key or number."""
        base, step = _trees(tree)
        key = _expressions(step)
        found = self._value(key[0], scope, level) if key else Scalar(_text_of(step).lstrip("."), 0, 0)
        if not isinstance(found, Scalar) or _is_unknown(found):
            raise _UnknownError
        return _field(self._value(base, scope, level), found.text)

    def binary(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """Arithmetic on whole numbers."""
        first, rest = _expressions(tree)
        operator, second = _expressions(rest)
        left, right = self._value(first, scope, level), self._value(second, scope, level)
        a, b = _whole_number(left), _whole_number(right)
        sign = _text_of(operator).strip()
        if a is None or b is None or (sign in "/%" and (b == 0 or a % b)):
            raise _UnknownError
        results = {"+": a + b, "-": a - b, "*": a * b}
        number = results.get(sign, a // b if sign == "/" and b else None)
        if number is None or abs(number) > 1 << 64:
            raise _UnknownError
        return Scalar(str(number), *_range(tree))

    def unary(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A number with its sign."""
        node = self._value(_only_child(tree), scope, level)
        number = _whole_number(node)
        if number is None or not self.text[_range(tree)[0]] == "-":
            raise _UnknownError
        return Scalar(str(-number), *_range(tree))

    def call(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """The result of a function that only puts together what it is given."""
        parts = _trees(tree)
        name = _text_of(parts[0])
        given = next((_expressions(part) for part in parts if part.data == "arguments"), [])
        if name == "try":
            return self._first(given, scope, level)
        if name == "merge":
            return _merge([self._or_unknown(part, scope, level) for part in given])
        values = [self._value(part, scope, level) for part in given]
        work = _FUNCTIONS.get(name)
        if work is None:
            raise _UnknownError
        node = work(values)
        return node._replace(start=_range(tree)[0], end=_range(tree)[1]) if isinstance(node, Scalar) else node

    def _first(self, given: "Sequence[Tree[Token]]", scope: Scope, level: int) -> Node:
        """The first that there is."""
        for part in given:
            try:
                return self._value(part, scope, level)
            except _MissingError:
                continue
        raise _UnknownError

    def for_list(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """A list that `for` makes of a literal collection."""
        intro, *rest = _expressions(tree)
        if len(rest) != 1:
            raise _UnknownError
        items = [self._value(rest[0], own, level) for own in self._rounds(intro, scope, level)]
        return SequenceNode(items, _range(tree)[0], True)

    def for_map(self, tree: "Tree[Token]", scope: Scope, level: int) -> Node:
        """An object that `for` makes of a literal collection."""
        intro, *rest = _expressions(tree)
        if len(rest) != 2:
            raise _UnknownError
        found: dict[str, MappingEntry] = {}
        for own in self._rounds(intro, scope, level):
            key = self._value(rest[0], own, level)
            if not isinstance(key, Scalar) or _is_unknown(key):
                raise _UnknownError
            found[key.text] = MappingEntry(key, self._or_unknown(rest[1], own, level))
        return MappingNode(found, _range(tree)[0], True)

    def _rounds(self, intro: "Tree[Token]", scope: Scope, level: int) -> Iterator[Scope]:
        parts = _expressions(intro)
        names = [_text_of(part) for part in parts[:-1]]
        collection = self._value(parts[-1], scope, level)
        if isinstance(collection, SequenceNode):
            pairs: list[tuple[Node, Node]] = [(Scalar(str(n), 0, 0), node) for n, node in enumerate(collection.items)]
        elif isinstance(collection, MappingNode) and REST not in collection.entries:
            pairs = [(entry.key._replace(text=key), entry.value) for key, entry in collection.entries.items()]
        else:
            raise _UnknownError
        for key, value in pairs[:MOST_INSTANCES]:
            yield {**scope, **dict(zip(names, (key, value) if len(names) == 2 else (value,), strict=True))}


_WORK: dict[str, "Callable[[_HclReader, Tree[Token], Scope, int], Node]"] = {
    "expr_term": _HclReader.term,
    "int_lit": _HclReader.number,
    "float_lit": _HclReader.number,
    "literal_value": _HclReader.number,
    "identifier": _HclReader.name,
    "string": _HclReader.string,
    "heredoc_template": _HclReader.heredoc,
    "heredoc_template_trim": _HclReader.heredoc,
    "tuple": _HclReader.tuple,
    "object": _HclReader.object,
    "get_attr_expr_term": _HclReader.attribute,
    "index_expr_term": _HclReader.index,
    "binary_op": _HclReader.binary,
    "unary_op": _HclReader.unary,
    "function_call": _HclReader.call,
    "for_tuple_expr": _HclReader.for_list,
    "for_object_expr": _HclReader.for_map,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A block: its type and labels, its attributes with their places, its blocks."""

    words: tuple[str, ...]
    start: int
    attributes: "dict[str, Tree[Token]]"
    starts: dict[str, int]
    blocks: "tuple[_Block, ...]"

    @classmethod
    def of(cls, tree: "Tree[Token]", level: int = 0) -> "_Block":
        """The block of a tree; blocks below `MOST_LEVELS` are left out."""
        words = []
        attributes: dict[str, Tree[Token]] = {}
        starts: dict[str, int] = {}
        blocks: list[_Block] = []
        for part in _trees(tree):
            if part.data in ("identifier", "keyword", "literal_value", "string"):
                words.append(_text_of(part).strip('"'))
            elif part.data == "body":
                for item in _trees(part):
                    if item.data == "attribute":
                        name, *_, expression = _trees(item)
                        attributes[_text_of(name)] = expression
                        starts[_text_of(name)] = _range(name)[0]
                    elif item.data == "block" and level < MOST_LEVELS:
                        blocks.append(cls.of(item, level + 1))
        return cls(
            words=tuple(words), start=_range(tree)[0], attributes=attributes, starts=starts, blocks=tuple(blocks)
        )


def _text_of(tree: "Tree[Token]") -> str:
    return "".join(_tokens(tree))


def _range(tree: "Tree[Token]") -> tuple[int, int]:
    meta: Any = tree.meta
    return (0, 0) if meta.empty else (meta.start_pos, meta.end_pos)


def _expressions(tree: "Tree[Token]") -> "list[Tree[Token]]":
    """The parts of an expression without line ends and comments."""
    return [part for part in _trees(tree) if part.data != "new_line_or_comment"]


def _only_child(tree: "Tree[Token]") -> "Tree[Token]":
    found = _expressions(tree)
    if len(found) != 1:
        raise _UnknownError
    return found[0]


def _unescape(text: str) -> str:
    def read(found: "re.Match[str]") -> str:
        code = found[1] or found[2]
        if code is None:
            return _ESCAPED[found[3]]
        number = int(code, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"

    return _ESCAPE.sub(read, text.replace("$${", "${").replace("%%{", "%{"))


def _unknown(source: str, start: int, end: int) -> Scalar:
    """A value that is not known, written so that it is taken for a reference."""
    words = _SPACE.sub(" ", source.strip().replace("${", "").replace("{", "(").replace("}", ")"))
    if len(words) > 1 and words[0] == words[-1] == '"':
        words = words[1:-1]
    return Scalar("${" + (words[:80] or "...") + "}", start, end, False)


def _is_unknown(node: Scalar) -> bool:
    return not node.is_plain and holds_placeholder(node.text)


def _without_exponent(text: str) -> str:
    """A whole number such as 1e9 as Terraform passes it on."""
    found = _EXPONENT.fullmatch(text)
    return str(int(float(text))) if found is not None and float(text).is_integer() else text


def _whole_number(node: Node) -> int | None:
    return to_int(node.text) if isinstance(node, Scalar) and not _is_unknown(node) else None


def _field(node: Node, name: str) -> Node:
    if isinstance(node, MappingNode):
        found = node.entries.get(name)
        if found is None:
            raise _UnknownError if REST in node.entries else _MissingError
        return found.value
    number = to_int(name)
    if isinstance(node, SequenceNode) and number is not None:
        if not 0 <= number < len(node.items):
            raise _MissingError
        return node.items[number]
    raise _UnknownError


def _merge(values: Sequence[Node]) -> Node:
    """All entries; one that is not known may set every key of those before it again."""
    found: dict[str, MappingEntry] = {}
    for value in values:
        if isinstance(value, MappingNode):
            found |= value.entries
        elif isinstance(value, Scalar) and not value.is_null:
            found = {REST: MappingEntry(value._replace(text=REST), value)}
    return MappingNode(found, values[0].start if values else 0, True)


def _concat(values: Sequence[Node]) -> Node:
    items: list[Node] = []
    for value in values:
        if not isinstance(value, SequenceNode):
            raise _UnknownError
        items += value.items
    return SequenceNode(items, values[0].start if values else 0, True)


def _lookup(values: Sequence[Node]) -> Node:
    collection, key, *default = values
    if not isinstance(key, Scalar) or _is_unknown(key):
        raise _UnknownError
    try:
        return _field(collection, key.text)
    except _MissingError:
        if default:
            return default[0]
        raise


def _require_same(values: Sequence[Node]) -> Node:
    if len(values) != 1:
        raise _UnknownError
    return values[0]


_FUNCTIONS: dict[str, Callable[[Sequence[Node]], Node]] = {
    "toset": _require_same,
    "tolist": _require_same,
    "tomap": _require_same,
    "tostring": _require_same,
    "tonumber": _require_same,
    "concat": _concat,
    "lookup": _lookup,
}


def _resources(root: Node, *kinds: str) -> Iterator[tuple[str, MappingNode]]:
    for address, entry in root.entries.items() if isinstance(root, MappingNode) else ():
        if isinstance(entry.value, MappingNode) and address.partition(".")[0] in kinds:
            yield address, entry.value


def _topic(reader: DocumentReader, address: str, node: MappingNode) -> TopicPiece:
    fields = TOPIC_RESOURCES[address.partition(".")[0]]
    name = node.text(fields.name)
    # A name of which nothing is known is that of the resource, so that two of them are two topics.
    is_filled_in = name is None or (name.startswith("${") and name.find("}") == len(name) - 1)
    topic = resource_topic(reader, node, fields, "${" + address + "}" if name is None or is_filled_in else name)
    topic = replace(topic, configs=_with_rest(reader, topic.configs, node.entries.get(fields.config)))
    # One provider for each cluster: a topic of the same name at another one is another topic.
    provider = node.text("provider")
    return topic if provider is None else replace(topic, cluster=topic.cluster or provider.strip("${}"))


def _with_rest(reader: DocumentReader, configs: Configs, entry: MappingEntry | None) -> Configs:
    """The settings of a topic; if a part of its configuration is not known, neither are those that it usually sets."""
    parts = entry.value.items if entry is not None and isinstance(entry.value, SequenceNode) else []
    nodes = parts or ([entry.value] if entry is not None else [])
    is_open = any(
        REST in part.entries if isinstance(part, MappingNode) else isinstance(part, Scalar) and _is_unknown(part)
        for part in nodes
    )
    if entry is None or not is_open:
        return configs
    place = reader.place(entry.key)
    known = {key: declared for key, declared in configs.items() if key != REST}
    return {**{key: DeclaredValue(REST, ValueSource.TOPIC, place) for key in USUAL_KEYS if key not in known}, **known}


def _msk(reader: DocumentReader, root: Node, address: str, node: MappingNode) -> BrokerPiece | None:
    properties = node.get("server_properties")
    if not isinstance(properties, Scalar):
        return None
    static = properties_in(reader, properties)
    versions = [item.text for item in node.sequence("kafka_versions") if isinstance(item, Scalar)]
    refers = ("${" + f"{address}.", "${" + f"{address}[")
    users = [
        cluster
        for _, cluster in _resources(root, MSK_CLUSTER)
        for part in cluster.sequence("configuration_info")
        if isinstance(part, MappingNode) and (part.text("arn") or "").startswith(refers)
    ]
    only = users[0] if len(users) == 1 else None
    groups = only.sequence("broker_node_group_info") if only is not None else ()
    types = [part.text("instance_type") for part in groups if isinstance(part, MappingNode)]
    platform = next((text for text in types if text and not holds_placeholder(text)), None)
    stated = [only.text("kafka_version")] if only is not None else []
    return BrokerPiece(
        place=reader.place(node),
        cluster=address,
        node=NodeIdentity(id=None, scope=reader.document.path, spot=address),
        roles=roles_of(static),
        static=static,
        host=HostFacts(platform=f"msk:{platform}") if platform is not None else NO_HOST,
        version=next((minor for text in (*stated, *versions) if (minor := _minor(text))), None),
        has_nearest_version=True,
        count=(to_int(only.text("number_of_broker_nodes") or "") or 0) if only is not None else 0,
        is_known=False,
        is_partial=True,
    )


def _minor(text: str | None) -> str | None:
    """Kafka's version in one of MSK's, such as 3.8.x or 2.8.2.tiered."""
    found = _MINOR.fullmatch(text or "")
    return found[1] if found is not None and minor_or_none(found[1]) is not None else None


def _is_terraform(root: Node) -> bool:
    return any(True for _ in _resources(root, *TOPIC_RESOURCES, MSK))


def _read(document: Document, root: MappingNode) -> Pieces:
    reader = DocumentReader(document)
    topics = [_topic(reader, address, node) for address, node in _resources(root, *TOPIC_RESOURCES)]
    brokers = [_msk(reader, root, address, node) for address, node in _resources(root, MSK)]
    return Pieces(
        brokers=tuple(broker for broker in brokers if broker is not None),
        topics=tuple(topics),
        problems=tuple(reader.problems),
    )


TERRAFORM_SOURCE_KIND = FileKind(
    name="terraform",
    about="Terraform's .tf files: topics as in its plans, and aws_msk_configuration",
    formats=("hcl",),
    recognise=_is_terraform,
    read=of_each(_read),
)
