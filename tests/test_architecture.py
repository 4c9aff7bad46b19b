"""The layers, enforced by walking imports, lazy and indirect ones too; a module that no table lists is pure."""

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "kafkakit"

# The one table: patterns of module names below the package, first match wins. Everything else is pure.
LAYERS: tuple[tuple[str, str], ...] = (
    ("adapters.*", "adapter"),
    ("wiring", "wiring"),
    ("cli", "cli"),
    ("*.cli", "cli"),
    ("*.options", "cli"),
    ("__main__", "cli"),
    ("command", "cli"),
    ("command_reference", "cli"),
    ("completion", "cli"),
    ("kit", "cli"),
    ("output", "cli"),
    ("settings", "cli"),
    ("shared_options", "cli"),
    ("settings_*", "cli"),
    ("*.run", "shell"),
    ("*.service", "shell"),
    ("service", "shell"),
    ("*.server", "shell"),
    ("*.store", "shell"),
    ("*.store_*", "shell"),
    ("*.client.*", "shell"),
)

EFFECTS = frozenset(
    {
        "asyncio", "atexit", "concurrent", "ctypes", "fcntl", "ftplib", "getpass", "glob", "http",
        "importlib", "io", "logging", "mmap", "multiprocessing", "os", "pathlib", "platform", "pty",
        "random", "resource", "runpy", "secrets", "select", "selectors", "shutil", "signal", "smtplib",
        "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
    }
)  # fmt: skip
EFFECT_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "breakpoint"})
CLOCK_CALLS = frozenset({"now", "utcnow", "today"})
PURE_LIBRARIES = frozenset({"networkx", "ortools", "numpy", "msgspec", "yaml", "zstandard"})
# A library whose errors another one lets through counts as that other one.
PART_OF = {"requests": "jgo"}
# What the adapters of one client library share, besides each one's own files.
SHARED = frozenset({"kafka_connect", "kafka_errors", "kafka_session"})
CLI_LIBRARIES = frozenset({"typer", "rich", "yaml"})
WIRING_MAY_IMPORT = (
    "adapters.*",
    "settings*",
    "errors",
    "ports",
    "*.ports",
    "model",
    "security",
    "documents",
    "version.facts",
    "doctor.facts",
    "*.store",
    "*.store_*",
)


@dataclass(frozen=True)
class Module:
    name: str
    layer: str
    tree: ast.Module
    imports: frozenset[str]


def layer_of(name: str, package: str) -> str:
    below = name.removeprefix(f"{package}.")
    return next((layer for pattern, layer in LAYERS if fnmatchcase(below, pattern)), "pure")


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def imports_of(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = ("." * node.level) + (node.module or "")
            found.add(source)
            found.update(f"{source}.{alias.name}" for alias in node.names)
    return frozenset(found)


def modules_of(root: Path) -> dict[str, Module]:
    modules: dict[str, Module] = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = parsed(path.read_text(encoding="utf-8"))
        modules[name] = Module(name, layer_of(name, root.name), tree, imports_of(ast.walk(tree)))
    return modules


def violations(root: Path) -> list[str]:
    modules = modules_of(root)
    package = root.name
    check = {"pure": pure_faults, "shell": shell_faults, "adapter": adapter_faults, "wiring": wiring_faults}
    found: list[str] = []
    for module in modules.values():
        if any(name.startswith(".") for name in module.imports):
            found.append(f"{module.name}: imports relatively")
        found += check.get(module.layer, cli_faults)(module, modules, package)
    return sorted(found)


def pure_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    for trail, imported in reached(module, modules, package):
        if imported in modules and modules[imported].layer != "pure":
            yield f"{module.name}: is pure, but reaches the {modules[imported].layer} {imported} through {trail}"
        elif not is_own(imported, package) and top(imported) in EFFECTS:
            yield f"{module.name}: is pure, but reaches {imported} through {trail}"
        elif third_party(imported, package) and top(imported) not in PURE_LIBRARIES:
            yield f"{module.name}: is pure, but reaches the library {top(imported)} through {trail}"
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in EFFECT_CALLS:
            yield f"{module.name}: is pure, but calls {node.func.id}() in line {node.lineno}"
        if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_CALLS and not node.args:
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in ("datetime", "date"):
                yield f"{module.name}: is pure, but asks the clock in line {node.lineno}"


def shell_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    for name in module.imports:
        if name in modules and modules[name].layer in ("adapter", "wiring", "cli"):
            yield f"{module.name}: is a shell, but imports the {modules[name].layer} {name}"
        elif third_party(name, package) and top(name) not in PURE_LIBRARIES:
            yield f"{module.name}: is a shell, but imports the library {top(name)}"


def adapter_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    libraries = {PART_OF.get(top(name), top(name)) for name in module.imports if third_party(name, package)}
    if len(libraries) > 1:
        yield f"{module.name}: is an adapter, but imports several libraries: {', '.join(sorted(libraries))}"
    for name in module.imports:
        if name in modules and modules[name].layer in ("wiring", "cli"):
            yield f"{module.name}: is an adapter, but imports the {modules[name].layer} {name}"
        elif name in modules and modules[name].layer == "adapter" and not may_lean_on(module.name, name):
            yield f"{module.name}: is an adapter, but imports the adapter {name}"


def wiring_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    for name in module.imports:
        below = name.removeprefix(f"{package}.")
        if name in modules and name != package and not any(fnmatchcase(below, p) for p in WIRING_MAY_IMPORT):
            if name != f"{package}.adapters":
                yield f"{module.name}: is wiring, but imports {name}"
        elif third_party(name, package):
            yield f"{module.name}: is wiring, but imports the library {top(name)}"


def cli_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    for name in module.imports:
        if third_party(name, package) and top(name) not in CLI_LIBRARIES:
            yield f"{module.name}: is of the command line, but imports the library {top(name)}"


def reached(module: Module, modules: dict[str, Module], package: str) -> Iterator[tuple[str, str]]:
    """Every import that a module reaches through pure modules, with the way to it."""
    queue = [(module.name, module.name)]
    seen: set[str] = set()
    while queue:
        name, trail = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for imported in sorted(modules[name].imports):
            yield trail, imported
            if imported in modules and modules[imported].layer == "pure":
                queue.append((imported, f"{trail} -> {imported}"))


def may_lean_on(adapter: str, other: str) -> bool:
    """An adapter may use its own files, and what all adapters of its client library share."""
    own, shared = adapter.rpartition(".")[2], other.rpartition(".")[2]
    return (shared in SHARED and own.split("_")[0] == shared.split("_")[0]) or same_adapter(adapter, other)


def same_adapter(one: str, other: str) -> bool:
    """An adapter may be spread over files that begin with its name: kafka_admin, kafka_admin_topics."""
    short, long = sorted((one, other), key=len)
    return long == short or long.startswith(f"{short}_") or one.rsplit("_", 1)[0] == other.rsplit("_", 1)[0]


def is_own(name: str, package: str) -> bool:
    return top(name) == package


def third_party(name: str, package: str) -> bool:
    return bool(top(name)) and not is_own(name, package) and top(name) not in sys.stdlib_module_names


def top(name: str) -> str:
    return name.partition(".")[0]


def run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only the type checker sees."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from run_nodes(child)


def circles(root: Path) -> list[str]:
    """Modules that reach themselves through imports, lazy ones included, each with the shortest way round."""
    modules = modules_of(root)
    graph = {
        module.name: sorted(imports_of(run_nodes(module.tree)) & modules.keys() - {module.name})
        for module in modules.values()
    }
    found = []
    for start, first in graph.items():
        ways = [(name, [start, name]) for name in first]
        seen: set[str] = set()
        for name, way in ways:
            if name == start:
                found.append(" -> ".join(way))
                break
            if name not in seen:
                seen.add(name)
                ways += [(further, [*way, further]) for further in graph[name]]
    return found


def test_the_package_keeps_its_layers() -> None:
    assert violations(ROOT) == []


def test_no_module_reaches_itself() -> None:
    assert circles(ROOT) == []


def test_a_circle_is_caught_and_one_for_the_type_checker_alone_is_none(tmp_path: Path) -> None:
    lazy = "def f():\n    from kit.a import x\n"
    root = write_package(tmp_path, {"a.py": "from kit.b import y\n", "b.py": lazy})
    assert circles(root) == ["kit.a -> kit.b -> kit.a", "kit.b -> kit.a -> kit.b"]
    hint = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kit.a import x\n"
    assert circles(write_package(tmp_path, {"b.py": hint})) == []


def test_the_walk_sees_the_package() -> None:
    modules = modules_of(ROOT)
    assert modules["kafkakit.model"].layer == "pure"
    assert modules["kafkakit.version.cli"].layer == "cli"
    assert {"adapter", "cli", "pure", "wiring"} <= {module.layer for module in modules.values()}


def write_package(folder: Path, files: dict[str, str]) -> Path:
    root = folder / "kit"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in (path.parent, *path.parent.parents):
            if parent.is_relative_to(root):
                (parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"plan.py": "def f():\n    from kit.middle import x\n", "middle.py": "def g():\n    import os.path\n"},
            [
                "kit.middle: is pure, but reaches os.path through kit.middle",
                "kit.plan: is pure, but reaches os.path through kit.plan -> kit.middle",
            ],
        ),
        ({"plan.py": "import time as t\n"}, ["kit.plan: is pure, but reaches time through kit.plan"]),
        ({"plan.py": "import kafka\n"}, ["kit.plan: is pure, but reaches the library kafka through kit.plan"]),
        (
            {"plan.py": "from kit.adapters import files\n", "adapters/files.py": ""},
            ["kit.plan: is pure, but reaches the adapter kit.adapters.files through kit.plan"],
        ),
        ({"plan.py": "x = open('a')\n"}, ["kit.plan: is pure, but calls open() in line 1"]),
        (
            {"plan.py": "from datetime import datetime\nx = datetime.now()\n"},
            ["kit.plan: is pure, but asks the clock in line 2"],
        ),
        (
            {"tool/run.py": "def f():\n    import kafka\n"},
            ["kit.tool.run: is a shell, but imports the library kafka"],
        ),
        (
            {"tool/run.py": "from kit.wiring import x\n", "wiring.py": ""},
            ["kit.tool.run: is a shell, but imports the wiring kit.wiring"],
        ),
        (
            {"adapters/a.py": "import kafka\nimport kazoo.client\n"},
            ["kit.adapters.a: is an adapter, but imports several libraries: kafka, kazoo"],
        ),
        (
            {"adapters/a.py": "from kit.adapters.b import x\n", "adapters/b.py": ""},
            ["kit.adapters.a: is an adapter, but imports the adapter kit.adapters.b"],
        ),
        (
            {"tool/cli.py": "import confluent_kafka\n"},
            ["kit.tool.cli: is of the command line, but imports the library confluent_kafka"],
        ),
        (
            {"wiring.py": "from kit.tool.planner import plan\n", "tool/planner.py": ""},
            ["kit.wiring: is wiring, but imports kit.tool.planner"],
        ),
        ({"plan.py": "from .middle import x\n", "middle.py": ""}, ["kit.plan: imports relatively"]),
    ],
)
def test_a_violation_is_caught(tmp_path: Path, files: dict[str, str], expected: list[str]) -> None:
    assert violations(write_package(tmp_path, files)) == expected


def test_what_is_allowed_passes(tmp_path: Path) -> None:
    files = {
        "model.py": "import dataclasses\nimport re\n",
        "plan.py": "def f():\n    import numpy\n    from kit.model import X\n",
        "tool/run.py": "import os\nimport time\nfrom kit.plan import f\n",
        "adapters/kafka_admin.py": "import kafka\nimport os\nfrom kit.adapters.kafka_admin_topics import x\n",
        "adapters/kafka_admin_topics.py": "import kafka.admin\n",
        "tool/cli.py": "import typer\ndef f():\n    from kit.wiring import x\n    from kit.tool.run import y\n",
        "wiring.py": "def f():\n    from kit.adapters.kafka_admin import x\n",
    }
    assert violations(write_package(tmp_path, files)) == []
