"""What applications load with the streams client: no planner, no executor, no command line, and a number of modules."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.layers import run_nodes
from tests.architecture.package import Module, imports_of, modules_of, own_imports, third_party, top

CLIENT = "streams.client"
WAY_IN = f"{CLIENT}.connect"
MOST_MODULES = 160
FOREIGN = ("topicmappr", "placement", "execution", "reassign", "simulator", "cli")
FOREIGN_LIBRARIES = frozenset({"typer", "rich", "click", "ortools", "numpy"})


def client_budget(root: Path) -> list[str]:
    """Faults of what importing the client loads, and of what its modules may load later, adapters left out."""
    modules = modules_of(root)
    start = f"{root.name}.{WAY_IN}"
    if start not in modules:
        return []
    loaded = {start: start}
    found = list(_foreign(start, modules, loaded))
    if len(loaded) > MOST_MODULES:
        found.append(f"{start}: loads {len(loaded)} modules, at most {MOST_MODULES}")
    for module in modules.values():
        if module.below.startswith(f"{CLIENT}."):
            foreign = (other.name for other in own_imports(module, modules) if is_foreign(other.below))
            found += [f"{module.name}: imports {name}" for name in foreign]
    return sorted(set(found))


def _foreign(start: str, modules: Mapping[str, Module], loaded: dict[str, str]) -> Iterator[str]:
    queue = [start]
    for name in queue:
        for imported in sorted(imports_of(_at_import(modules[name].tree))):
            if third_party(imported, start.partition(".")[0]) and top(imported) in FOREIGN_LIBRARIES:
                yield f"{start}: loads the library {top(imported)} through {loaded[name]}"
            if imported in modules and modules[imported].path.name != "__init__.py" and imported not in loaded:
                loaded[imported] = f"{loaded[name]} -> {imported}"
                if is_foreign(modules[imported].below):
                    yield f"{start}: loads {loaded[imported]}"
                else:
                    queue.append(imported)


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported: not those of functions, nor what only the type checker sees."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr) or not any(run_nodes(node)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _at_import(child)


def is_foreign(below: str) -> bool:
    return any(f"{below}.".startswith(f"{folder}.") for folder in FOREIGN)
