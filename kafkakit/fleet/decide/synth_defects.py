"""All defects that a made fleet can have, by name."""

from collections.abc import Mapping

from kafkakit.fleet.decide import synth_capacity, synth_drift, synth_readers, synth_retention, synth_segment_defects
from kafkakit.fleet.decide.synth_defect import Defect

_GROUPS = (
    synth_drift.DEFECTS,
    synth_retention.DEFECTS,
    synth_segment_defects.DEFECTS,
    synth_capacity.DEFECTS,
    synth_readers.DEFECTS,
)
DEFECTS: Mapping[str, Defect] = {defect.name: defect for group in _GROUPS for defect in group}
