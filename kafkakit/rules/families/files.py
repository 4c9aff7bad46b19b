"""L: rules of files as such, carried out by the reader of files."""

from kafkakit.rules.rule import CORE, ERROR, NOTE, file_rule
from kafkakit.rules.violation import Violations


@file_rule("KKL006", ERROR, CORE)
def unparsable_file() -> Violations:
    """A file, or a part of it, cannot be read as what it is.

    Why: what cannot be read is not checked, and other tools refuse the file or read something else out of it.
    Source: the YAML 1.1 and JSON (RFC 8259) specifications; `java.util.Properties`; `docs/lint.md` for kafkakit files.

    Bad:
        topics:
          - {name: orders, partitions: many}

    Good:
        topics:
          - {name: orders, partitions: 12}
    """
    yield from ()


@file_rule("KKL007", NOTE, CORE)
def unknown_kind() -> Violations:
    """A file that was given by its name is of no kind that lint knows, so nothing of it was checked.

    Why: a check that silently checks nothing looks like one that passed.
    Source: `docs/lint.md`, section Files; `--kind` names the kind where it is not detected.

    Bad:
        --- settings.yaml
        colour: blue

    Good:
        --- settings.yaml
        kafkakit: cluster
        cluster: orders
    """
    yield from ()
