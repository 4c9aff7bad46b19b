"""`kafkakit sandbox`: real Kafka clusters on this machine."""

from pathlib import Path

from kafkakit.sandbox.machine import Machine


def this_machine(cache_dir: Path) -> Machine:
    """The real machine: its processes, Java, jars (cached under `cache_dir`) and Kafka client."""
    import os

    from kafkakit.adapters.broker_probe import BrokerProbe
    from kafkakit.adapters.certificates import CertificateMaker
    from kafkakit.adapters.jars import JarCache
    from kafkakit.adapters.java import find_java
    from kafkakit.adapters.processes import LocalProcesses
    from kafkakit.wiring import system_clock

    return Machine(
        processes=LocalProcesses(),
        jars=JarCache(cache_dir),
        certificates=CertificateMaker(),
        clock=system_clock(),
        find_java=find_java,
        open_admin=BrokerProbe,  # type: ignore[arg-type]
        random_bytes=os.urandom,
    )
