"""The stand-in of the data plane keeps the contract of the real one."""

import pytest

from tests.contracts.data import DataContract
from tests.fakes.data import FakeData
from tests.fakes.log_reader import FakeLogReader


class FakeDataRig:
    def __init__(self) -> None:
        self.data = FakeData(FakeLogReader())

    def new_topic(self) -> str:
        self.data.log.add_topic("t", 2)
        return "t"


class TestFakeData(DataContract):
    @pytest.fixture
    def data_rig(self) -> FakeDataRig:
        return FakeDataRig()
