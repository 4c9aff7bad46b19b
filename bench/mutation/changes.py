"""What a mutation run may change in a module: comparisons, constants, conditions, arguments, statements."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor",
         "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One possible change of a source; `before` and `after` are the statement or expression in one line."""

    line: int
    last_line: int
    is_import: bool
    operator: str
    before: str
    after: str


class Place(NamedTuple):
    """A node that may be replaced: in a field of its parent, at an index where the field is a list."""

    parent: ast.AST
    field: str
    index: int | None
    operator: str
    node: ast.AST
    replacement: ast.AST
    is_import: bool


def mutants_of(source: str) -> Iterator[Change]:
    """Every change, in the order of the source's nodes."""
    for place in _places(ast.parse(source)):
        yield Change(
            line=getattr(place.node, "lineno", 0),
            last_line=getattr(place.node, "end_lineno", 0),
            is_import=place.is_import,
            operator=place.operator,
            before=_line(place.node),
            after=_line(place.replacement),
        )


def mutated(source: str, number: int) -> str:
    """The source with its `number`-th change made."""
    tree = ast.parse(source)
    place = next(islice(_places(tree), number, None))
    if place.index is None:
        setattr(place.parent, place.field, place.replacement)
    else:
        getattr(place.parent, place.field)[place.index] = place.replacement
    return ast.unparse(ast.fix_missing_locations(tree))


def _places(parent: ast.AST, is_import: bool = True) -> Iterator[Place]:
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "returns", "decorator_list", "type_params") or _is_for_types(parent):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(node, ast.AST) or _is_docstring(node) or isinstance(node, ast.JoinedStr | ast.Raise):
                continue
            for operator, replacement in _replacements(node):
                yield Place(parent, field, index, operator, node, ast.copy_location(replacement, node), is_import)
            is_body = isinstance(parent, ast.FunctionDef | ast.Lambda) and field == "body"
            yield from _places(node, is_import and not is_body)


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield "comparison", _with(node, ops=[COMPARISONS[type(op)]()])
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            yield "arithmetic", _with(node, op=ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op):
            yield "and or", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "negation", copy.deepcopy(operand)
        case ast.Constant():
            yield from _constants(node)
        case ast.IfExp(test=test) | ast.If(test=test) | ast.While(test=test) if _is_condition(node, test):
            yield "condition", _with(node, test=ast.UnaryOp(ast.Not(), copy.deepcopy(test)))
        case ast.Name(id=name) if name in NAMES:
            yield "name", ast.Name(NAMES[name], ast.Load())
        case ast.Attribute(attr=name) if name in NAMES:
            yield "name", _with(node, attr=NAMES[name])
        case ast.Call(args=[first, second, *rest]) if ast.dump(first) != ast.dump(second):
            yield "arguments", _with(node, args=[copy.deepcopy(a) for a in (second, first, *rest)])
        case _:
            yield from _statements(node)


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", ast.Constant(node.value + 1)
        yield "constant", ast.Constant(node.value - 1)


def _statements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "dropped", ast.Pass()
        case ast.Continue():
            yield "dropped", ast.Break()
        case ast.Break():
            yield "dropped", ast.Continue()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_condition(node: ast.AST, test: ast.expr) -> bool:
    """Comparisons change by themselves, and what is imported for types has no effect."""
    return not isinstance(test, ast.Compare) and not _is_for_types(node)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _line(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0][:120]
