"""What the text of a module may not hold: docstrings that mislead, `assert`, private members of libraries."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.layers import owner_of
from tests.architecture.package import SPARK_JOBS, Module, all_modules, modules_of, spark_modules, third_party, top

# Packages whose names are no words of configuration keys, so that `placement.leaders` can only be a module.
NAMED_PACKAGES = frozenset({"adapters", "cli", "core", "execution", "placement", "ports", "simulator", "streams"})
ARTICLES = frozenset({"a", "an", "the"})
# Underscored names that are documented: of named tuples, of confluent-kafka's error codes (all in capitals), and of
# the modules `os` and `sys`.
DOCUMENTED = frozenset({"_asdict", "_fields", "_make", "_replace"})
DOCUMENTED_OF = frozenset({"os", "sys"})
# Modules that use what a library keeps private, and why.
USES_PRIVATE = {
    "adapters.kafka.session": "kafka-python cannot stop a client that failed, nor receive without copies",
    "adapters.kafka.log": "kafka-python has no public way to send without waiting",
    "kafkakit_spark.runner": "PySpark reads the number of executors only from the JVM",
}


def docstring_faults(root: Path) -> list[str]:
    """Docstrings that begin with a reference to another one, or that say no more than the name."""
    found = []
    for module in all_modules(root):
        for node, text in docstrings(module):
            if re.match(r"the same\b", text.lstrip(), re.IGNORECASE):
                found.append(f"{module.name}: line {node.lineno} says 'The same', not what")
            elif re.fullmatch(r"See (?:the port|`[\w.]+`)\.", text.strip()):
                found.append(f"{module.name}: line {node.lineno} only refers to another docstring")
            elif restates(node, text):
                found.append(f"{module.name}: line {node.lineno} says no more than the name")
    return found


def missing_names(root: Path) -> list[str]:
    """Docstrings that name a module, or something in one, that is not there."""
    return [
        f"{module.name}: line {node.lineno} names {named}, which is not there"
        for module in all_modules(root)
        for node, text in docstrings(module)
        for named in re.findall(r"`([^`\n]+)`", text)
        if is_missing(named, module, root)
    ]


def docstrings(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """Each docstring with what it describes; texts below constants and fields with themselves."""
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.ClassDef):
            texts = [each for each in node.body if text_of(each)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            texts = [each for each in node.body[:1] if text_of(each)]
        else:
            continue
        for text in texts:
            yield (text if isinstance(node, ast.Module) or text is not node.body[0] else node), text_of(text)


def text_of(node: ast.stmt) -> str:
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def restates(node: ast.stmt, text: str) -> bool:
    """True for a single sentence all of whose words, but for articles, are those of the name."""
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    said = set(re.findall(r"\w+", text.lower())) - ARTICLES
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower()
    return said <= set(name.split("_"))


def is_missing(named: str, module: Module, root: Path) -> bool:
    """True for the name of a module, or of something in one, that leads nowhere.

    Names are paths that end with `.py`; paths that begin with a folder of the package or of the project; dotted names
    that begin with a package; and `module.Class` with any number of folders before it. Everything else (keys, files,
    members of values) is left alone.
    """
    if re.fullmatch(r"[a-z0-9_/]+\.py", named):
        # A bare file name is that of a file in the same tool or library.
        places = [name for name, path in paths_below(root) if f"/{path}".endswith(f"/{named}")]
        return not [name for name in places if "/" in named or owner_in(root, name) == owner_in(root, module.name)]
    if re.fullmatch(r"[a-z_]+(/[a-z_.]+)*/?", named) and "/" in named:
        if named.split("/", maxsplit=1)[0] in folders_of(root) | {root.name, "docs", "tests", "bench"}:
            return not ((root / named).exists() or (root.parent / named).exists())
        return False
    if not re.fullmatch(r"[a-zA-Z_]\w*(\.\w+)+", named) or is_foreign(top(named), root):
        return False
    parts = named.split(".")
    if parts[0] in (root.name, SPARK_JOBS) or parts[0] in NAMED_PACKAGES:
        return not leads_somewhere(parts, root)
    names_class = re.fullmatch(r"([a-z_]+\.)+[A-Z][a-z]\w*", named) is not None
    if names_class and (len(parts) == 2 or parts[0] in folders_of(root)):
        return not leads_somewhere(parts, root)
    return False


def is_foreign(name: str, root: Path) -> bool:
    return name in sys.stdlib_module_names or name in libraries_of(root)


def leads_somewhere(parts: list[str], root: Path) -> bool:
    """True when a module or folder ends with the first parts, and the rest is defined in it."""
    for length in range(len(parts), 0, -1):
        places = [name for name in known_modules(root) if f".{name}".endswith("." + ".".join(parts[:length]))]
        if places:
            rest = parts[length:]
            return not rest or any(rest[0] in defined_in(place, root) for place in places)
    return False


@cache
def known_modules(root: Path) -> dict[str, Module]:
    return {**modules_of(root), **spark_modules(root)}


@cache
def paths_below(root: Path) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(module.path.relative_to(root.parent))) for name, module in known_modules(root).items())


@cache
def folders_of(root: Path) -> frozenset[str]:
    """The packages right below the root."""
    return frozenset(path.parent.name for path in root.glob("*/*.py"))


def owner_in(root: Path, name: str) -> str:
    """The tool or library of a module; all jobs of Spark are one."""
    return owner_of(known_modules(root)[name].below) if top(name) == root.name else SPARK_JOBS


@cache
def libraries_of(root: Path) -> frozenset[str]:
    names = {name for module in known_modules(root).values() for name in module.imports}
    return frozenset(top(name) for name in names if third_party(name, root.name)) - {SPARK_JOBS}


@cache
def defined_in(name: str, root: Path) -> frozenset[str]:
    """What a module defines or imports; of a folder, what its modules do."""
    modules = known_modules(root)
    inside = [modules[name]] if modules[name].path.name != "__init__.py" else []
    inside = inside or [module for module in modules.values() if module.name.startswith(f"{name}.")]
    found: set[str] = set()
    for module in inside:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Assign):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return frozenset(found)


def asserts(root: Path) -> list[str]:
    """`python -O` leaves out an `assert`: what must hold raises an error, what a type does not tell is narrowed."""
    return [
        f"{module.name}: asserts in line {node.lineno}"
        for module in all_modules(root)
        for node in module.nodes
        if isinstance(node, ast.Assert)
    ]


def private_members(root: Path) -> list[str]:
    """Members of other objects that begin with an underscore and that the module itself does not define."""
    found = []
    for module in all_modules(root):
        if module.below in USES_PRIVATE:
            continue
        found += [f"{module.name}: uses {name} in line {line}" for line, name in sorted(private_uses(module))]
    return found


def private_uses(module: Module) -> Iterator[tuple[int, str]]:
    own = set(members_of(module))
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in ("self", "cls") and owner not in DOCUMENTED_OF:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "setattr", "hasattr"):
            name = node.args[1] if len(node.args) > 1 else None
            if isinstance(name, ast.Constant) and is_private(str(name.value)) and name.value not in own:
                yield node.lineno, str(name.value)
        elif isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from ((node.lineno, part) for part in parts if is_private(part))


def is_private(name: str) -> bool:
    return re.fullmatch(r"_[a-z]\w*", name) is not None and name not in DOCUMENTED


def members_of(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
