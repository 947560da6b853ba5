"""Where the work on partitions is done: here, one after the other, or elsewhere (see ``rince.audit.cluster``)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

FAN_IN = 8


class Runner(ABC):
    """Calls functions where the data is. What they return stays there; its handle can be given to the next function.

    Functions must be pure and picklable: a call may be repeated if the process that ran it is lost.
    """

    @abstractmethod
    def one(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A handle of what the function returns; arguments may be handles, or lists of them."""

    @abstractmethod
    def values(self, handles: Sequence[Any], label: str = "") -> list[Any]:
        """What is behind the handles, brought here: only for what is small. The label is that of a progress bar."""

    def value(self, handle: Any) -> Any:
        """What is behind one handle."""
        return self.values([handle])[0]

    def each(self, function: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        """The function applied to the first of every column, then to the second, and so on."""
        return [self.one(function, *row) for row in zip(*columns, strict=True)]

    def merged(self, function: Callable[[list[Any]], Any], handles: Sequence[Any]) -> Any:
        """All results as one, by a function that makes one of a list; a few at a time, so that none has to hold all."""
        level = list(handles)
        while len(level) > 1:
            level = [self.one(function, level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
        return level[0]


class Here(Runner):
    """In this process, at once."""

    def one(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def values(self, handles: Sequence[Any], label: str = "") -> list[Any]:
        return list(handles)
