"""The code of Spark jobs: executors get it in a zip, with nothing but Spark, Arrow, numpy and the standard library."""

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.package import modules_of, third_party, top

JOB_LIBRARIES = frozenset({"pyspark", "pyarrow", "numpy"})
SHARED = ("core", "rules", "streams.formats")
PARENTS = ("kafkakit", "streams")


def spark_faults(root: Path) -> list[str]:
    """`root` is the package beside whose folder `spark/` lies."""
    jobs = root.parent / "spark" / "kafkakit_spark"
    return sorted(_faults(jobs, root)) if jobs.exists() else []


def _faults(jobs: Path, root: Path) -> Iterator[str]:
    own, shared = modules_of(jobs), modules_of(root)
    for module in own.values():
        queue = [(module.name, module.name)]
        seen: set[str] = set()
        while queue:
            name, trail = queue.pop()
            if name in seen:
                continue
            seen.add(name)
            for imported in sorted((own.get(name) or shared[name]).imports):
                below = imported.removeprefix(f"{root.name}.")
                if imported in own or (
                    imported in shared and any(f"{below}.".startswith(f"{folder}.") for folder in SHARED)
                ):
                    queue.append((imported, f"{trail} -> {imported}"))
                elif imported in shared and below not in PARENTS:
                    yield f"{module.name}: runs on executors, but reaches {imported} through {trail}"
                elif third_party(imported, jobs.name) and top(imported) not in (root.name, *JOB_LIBRARIES):
                    yield f"{module.name}: runs on executors, but reaches the library {top(imported)} through {trail}"
