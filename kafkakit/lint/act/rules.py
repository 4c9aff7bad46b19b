"""The rules of a run: those of the kit, of installed packages, and of the repository's lint configuration."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kafkakit.core.errors import InputError, UsageError
from kafkakit.lint.decide.documents.yaml_text import read_yaml
from kafkakit.lint.decide.lint_config import LintConfig, read_lint_config
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.rule import LintRule

ENTRY_POINTS = "kafkakit.lint_rules"
"""The group of entry points; each names a sequence of `LintRule`, and is loaded when the configuration names it."""
CONFIG_LIMIT_BYTES = 1 << 20


def read_config(path: Path | None, read_input: Callable[[Path, int], bytes]) -> LintConfig:
    """The lint configuration of a file, the empty one without a file; with all rules."""
    if path is None:
        return read_lint_config(None, all_rules(), _of_packages)
    data = read_input(path, CONFIG_LIMIT_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"not valid UTF-8 text (byte {error.start})") from None
    return read_lint_config(read_yaml(path.as_posix(), text), all_rules(), _of_packages)


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
                raise InputError(f"package {entry.value}", "holds something that is no LintRule")
            found += rules
    return tuple(found)
