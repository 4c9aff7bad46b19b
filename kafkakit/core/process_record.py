"""What makes a process on this machine recognisable."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """What makes a process ours: its pid, its start time in clock ticks since boot, and its marker."""

    pid: int
    started_ticks: int
    marker: str
