"""What stands for pandas in the packages: ortools imports it, for types of arguments that kafkakit never passes."""


class Index:
    """The type of an index of variables."""


class Series:
    """The type of a series of variables."""
