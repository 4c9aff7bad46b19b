"""Writing the other outputs of a run: further formats, and the site of rules."""

from collections.abc import Callable, Sequence
from pathlib import Path

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
