"""The jobs by name, each imported when it is run."""

from importlib import import_module

from kafkakit_spark.job import Job

NAMES = ("segments", "retention", "drift", "capacity", "hotspots", "bombs", "lag", "mirror")


def job_named(name: str) -> Job:
    """The function of a job; `ValueError` for a name that is none."""
    if name not in NAMES:
        raise ValueError(f"no audit is called {name}; there are {', '.join(NAMES)}")
    found: Job = import_module(f"kafkakit_spark.jobs.{name}").run
    return found
