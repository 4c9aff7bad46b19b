"""The shapes of folders and modules: what stands alone, what only re-exports, what a module of commands holds."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.architecture.layers import owner_of
from tests.architecture.package import Module, modules_of

LARGEST_COMMANDS = 200
API = frozenset({"api", "api_act"})
# What a rule of groups demands, and what puts it on record.
DEMANDS = frozenset({"min_groups", "spread_over", "min_rack_ids", "repeats_allowed"})
RECORDS = frozenset({"PlacementRules", "replace"})
# What a module of commands may not name: signals, files, processes and threads belong below it.
NOT_IN_COMMANDS = frozenset({"signal", "threading", "subprocess", "socket", "os", "io", "json", "re", "tempfile"})


def lonely_folders(root: Path) -> list[str]:
    """Folders that hold one module and no other folder."""
    found = []
    for folder in sorted({path.parent for path in root.rglob("*.py")}):
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        folders = [path for path in folder.iterdir() if path.is_dir() and any(path.glob("*.py"))]
        if len(modules) + len(folders) < 2:
            found.append(f"{folder.relative_to(root.parent)}: holds a single module")
    return found


def reexports(root: Path) -> list[str]:
    """Modules that only hand on what others define."""
    found = []
    for module in modules_of(root).values():
        if module.below.rpartition(".")[2] in API or module.path.name == "__init__.py":
            continue
        body = [node for node in module.tree.body if not is_docstring(node) and not is_all(node)]
        if body and all(isinstance(node, ast.ImportFrom) and is_own(node, root.name) for node in body):
            found.append(f"{module.name}: only re-exports")
    return found


def command_shape_faults(root: Path) -> list[str]:
    """Modules of commands that hold more than command functions."""
    found: list[str] = []
    for module in modules_of(root).values():
        own = module.below.rpartition(".")[2]
        if own == "options" or own.endswith("_options"):
            continue  # typed option groups, with what reads them
        if "commands" in module.below.split(".") and module.path.name != "__init__.py":
            found += [f"{module.name}: {fault}" for fault in _command_faults(module)]
    return sorted(found)


def _command_faults(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    if lines >= LARGEST_COMMANDS:
        yield f"has {lines} lines"
    for statement in module.tree.body:
        if isinstance(statement, ast.FunctionDef) and not statement.decorator_list and not takes_context(statement):
            yield f"{statement.name} is no command"
        elif isinstance(statement, ast.ClassDef):
            yield f"defines the class {statement.name}"
    for node in module.nodes:
        if isinstance(node, ast.For | ast.While):
            yield f"loops in line {node.lineno}"
        elif isinstance(node, ast.Try):
            yield f"handles errors in line {node.lineno}"
    names = {name.partition(".")[0] for name in module.imports}
    for name in sorted(names & NOT_IN_COMMANDS):
        yield f"imports {name}"


def takes_context(function: ast.FunctionDef) -> bool:
    """A command's first parameter is the invocation's context."""
    first = function.args.args[:1]
    return bool(first) and first[0].annotation is not None and ast.unparse(first[0].annotation) == "typer.Context"


def untyped_options(root: Path) -> list[str]:
    """Options that travel without a type."""
    found = []
    for module in modules_of(root).values():
        found += [
            f"{module.name}: calls locals() in line {node.lineno}"
            for node in module.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "locals"
        ]
        if module.layer == "commands" and module.below.partition(".")[0] != "cli":
            for match in re.finditer(r"(?:Mapping|dict)\[str, (?:Any|object)\]", module.text):
                line = module.text.count("\n", 0, match.start()) + 1
                if is_parameter(module.nodes, line):
                    found.append(f"{module.name}: takes {match[0]} in line {line}")
    return sorted(found)


def is_parameter(nodes: Iterable[ast.AST], line: int) -> bool:
    return any(
        isinstance(node, ast.arg) and node.annotation is not None and node.lineno <= line <= (node.end_lineno or 0)
        for node in nodes
    )


def repeated_classes(root: Path) -> list[str]:
    """Public classes whose name stands twice in one tool or library."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in modules_of(root).values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[owner_of(module.below), node.name].append(module.name)
    return sorted(f"{name}: stands in {', '.join(where)}" for (_, name), where in places.items() if len(where) > 1)


def untyped_arrays(root: Path) -> list[str]:
    """Aliases that call an array `Any`."""
    found = []
    for module in modules_of(root).values():
        for node in module.tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Name) and value.id == "Any":
                found.append(f"{module.name}: names Any in line {node.lineno}")
    return found


def rule_readers(root: Path) -> list[str]:
    """Modules outside `placement/group_*` that read what a rule of groups demands, but to put it on record."""
    found: set[str] = set()
    for module in modules_of(root).values():
        if module.below.startswith("placement.group_"):
            continue
        calls = (node for node in module.nodes if isinstance(node, ast.Call) and called(node) in RECORDS)
        recorded = {id(keyword.value) for call in calls for keyword in call.keywords}
        for node in module.nodes:
            if not isinstance(node, ast.Attribute) or node.attr not in DEMANDS or id(node) in recorded:
                continue
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name == "rule":
                found.add(f"{module.name}: interprets the rule of groups")
    return sorted(found)


def called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_own(node: ast.ImportFrom, package: str) -> bool:
    return (node.module or "").partition(".")[0] == package


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
