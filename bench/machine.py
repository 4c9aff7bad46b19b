"""The machine's shape, printed beside every figure, and the memory of a process."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def shape() -> dict[str, object]:
    """CPU, cores, memory, load, Python and system of this machine, and the day."""
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(pages / (1 << 30), 1),
        "load_1m": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "system": platform.system(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def resident_mib(pid: int) -> float:
    """The memory of a process that is in use now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)
