"""One run of lint: configuration, files and cluster in; fixes, baseline and other outputs written; the result out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import counted
from kafkakit.lint.act.rules import read_config
from kafkakit.lint.decide.baseline import LIMIT_BYTES, Baseline, decode_baseline, encode_baseline, prune_baseline
from kafkakit.lint.decide.decision import RunOptions, fail_on_of, lint, lint_request
from kafkakit.lint.decide.fixing import FixedRun, LintDone, fix_all
from kafkakit.lint.decide.kinds.registry import FileReading
from kafkakit.lint.decide.lint_config import LintConfig
from kafkakit.lint.decide.pieces import Pieces
from kafkakit.rules.rule import LintRule

Write = Callable[[Path, bytes], None]


def write_outputs(texts: Sequence[tuple[Path, str]], write_file: Write) -> None:
    """Write each text to its file, as a whole."""
    for path, text in texts:
        write_file(path, text.encode("utf-8", "backslashreplace"))


def write_site(rules: Sequence[LintRule], folder: Path, write_file: Write) -> int:
    """Write the pages of rules to a folder, which is made where it is missing; returns how many files."""
    from kafkakit.lint.show.rule_pages import site_files

    folder.mkdir(parents=True, exist_ok=True)
    files = site_files(rules)
    write_outputs([(folder / name, text) for name, text in files.items()], write_file)
    return len(files)


BOM = "\ufeff".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class LintTask:
    """What the command line asked for, files of the run included."""

    options: RunOptions
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
    request = lint_request(task.options, config, baseline, str(baseline_path or ""))
    files, live = ports.read_files(), ports.read_live()
    if not files and not live:
        raise UsageError("nothing to lint: no file of a known kind was found", hint="docs/lint.md lists the kinds")
    if task.fix or task.diff:
        run = fix_all(files, live, request, task.kind, unsafe=task.unsafe)
    else:
        run = FixedRun(linted=lint(files, live, request))
    if task.fix:
        _write_fixes(run, ports)
    if task.write_baseline is not None:
        ports.write_file(task.write_baseline, encode_baseline(run.linted.unaccepted))
        number = counted(len(run.linted.unaccepted), "finding")
        ports.say(f"wrote {task.write_baseline}: it accepts {number}")
    if task.prune_baseline and baseline is not None and baseline_path is not None:
        ports.write_file(baseline_path, prune_baseline(baseline, run.linted.unaccepted))
        ports.say(f"pruned {baseline_path}")
    return LintDone(run=run, fail_on=fail_on_of(task.options, config))


def _named_baseline(config: LintConfig) -> Path | None:
    named = config.settings.baseline
    if named is None or config.path is None:
        return None
    return Path(config.path).parent / named


def _baseline(path: Path | None, task: LintTask, ports: LintPorts) -> Baseline | None:
    if task.prune_baseline and path is None:
        raise UsageError("--prune-baseline needs a baseline", hint="name it with --baseline FILE")
    return None if path is None else decode_baseline(ports.read_input(path, LIMIT_BYTES), str(path))


def _write_fixes(run: FixedRun, ports: LintPorts) -> None:
    for change in run.changed:
        path, text = Path(change.path), change.before.text.encode()
        before = ports.read_input(path, len(text) + len(BOM))
        if before.removeprefix(BOM) != text:
            raise UsageError(f"{path} changed while it was linted; nothing was written to it", hint="run again")
        mark = BOM if before.startswith(BOM) else b""
        ports.write_file(path, mark + change.after.text.encode(), path.stat().st_mode & 0o777)
    if run.changed:
        ports.say(f"fixed {counted(run.fixed, 'finding')} in {counted(len(run.changed), 'file')}")
