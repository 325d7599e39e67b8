"""Every error hoptrail raises, in one tree.

    HoptrailError
    ├── ConfigurationError          a setting is missing, malformed or contradicts another
    ├── QuestionError               the question is empty or too long
    ├── CorpusError
    │   ├── CorpusNotFoundError     no corpus where one was expected
    │   ├── CorpusMismatchError     the corpus was built with other parts than the ones opening it
    │   ├── CorpusLockedError       another process is writing to the corpus
    │   └── DocumentError           one document could not be read
    ├── ModelError
    │   ├── ModelUnavailableError   unreachable, overloaded or timed out, after retries
    │   ├── ModelAccessError        the key, the model name or the request was refused
    │   ├── ModelStalledError       a stream stopped sending before its end
    │   ├── ModelOutputError        the model answered, but not in the requested form
    │   └── ModelFileError          weights are absent, incomplete or not the official ones
    ├── PlanError                   a plan is unusable and may not be repaired
    ├── ToolError
    │   ├── UnknownToolError        no tool of that name is registered
    │   └── ToolTimeoutError        a tool did not return within its time
    ├── UnknownPlannerError         no planner of that name is registered
    ├── BudgetExceededError         a call would exceed the run's cap
    ├── DeadlineExceededError       the run's time is up
    └── TraceError                  a trace file cannot be read back into a run

Messages say what was wrong, where, and what to do, on one line: the command line and the server show them as they
are. They never contain keys or the text of documents.
"""

from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "BudgetExceededError",
    "ConfigurationError",
    "CorpusError",
    "CorpusLockedError",
    "CorpusMismatchError",
    "CorpusNotFoundError",
    "DeadlineExceededError",
    "DocumentError",
    "HoptrailError",
    "ModelAccessError",
    "ModelError",
    "ModelFileError",
    "ModelOutputError",
    "ModelStalledError",
    "ModelUnavailableError",
    "PlanError",
    "QuestionError",
    "ToolError",
    "ToolTimeoutError",
    "TraceError",
    "UnknownPlannerError",
    "UnknownToolError",
]


class HoptrailError(Exception):
    """The root of every error hoptrail raises on purpose."""


class ConfigurationError(HoptrailError):
    """Raised when a setting is missing, malformed or contradicts another."""


class QuestionError(HoptrailError):
    """Raised when a question is empty or too long to be asked."""


class CorpusError(HoptrailError):
    """Raised when a corpus cannot be read or written."""


class CorpusNotFoundError(CorpusError):
    """Raised when no corpus exists where one was expected."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"No corpus at {path}: create one with `hoptrail index PATH... --corpus {path}`.")
        self.path = path


class CorpusMismatchError(CorpusError):
    """Raised when a corpus was built with other parts than the ones opening it."""

    def __init__(self, path: Path | str, part: str, *, stored: object, given: object) -> None:
        super().__init__(
            f"The corpus at {path} was built with {part} {stored!r}, but {part} {given!r} is configured: "
            f"set {part} back to {stored!r}, or index into a new corpus."
        )
        self.part, self.stored, self.given = part, stored, given


class CorpusLockedError(CorpusError):
    """Raised when another process is writing to the corpus."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"Another process is indexing into {path}: wait for it to end, then try again.")


class DocumentError(CorpusError):
    """Raised when one document cannot be read; the others are still indexed."""

    def __init__(self, source: Path | str, reason: str) -> None:
        super().__init__(f"Cannot read {source}: {reason}")
        self.source, self.reason = source, reason


class ModelError(HoptrailError):
    """Raised when a language or embedding model cannot do what was asked of it."""


class ModelUnavailableError(ModelError):
    """Raised when a model stays unreachable, overloaded or silent after every retry."""


class ModelAccessError(ModelError):
    """Raised when an endpoint refuses the key, the model name or the request itself.

    `of_request` says that it was the request: another may be taken.
    """

    def __init__(self, message: str, *, of_request: bool = False) -> None:
        super().__init__(message)
        self.of_request = of_request


class ModelStalledError(ModelError):
    """Raised when a model's stream sends nothing for longer than the idle timeout."""

    def __init__(self, model: str, seconds: float) -> None:
        super().__init__(
            f"The stream of model {model} sent nothing for {seconds:g} s: "
            "raise HOPTRAIL_STREAM_IDLE_S if the model is slow, or check the endpoint."
        )


class ModelOutputError(ModelError):
    """Raised when a model answered, but not in the requested form."""


class ModelFileError(ModelError):
    """Raised when model weights are absent, incomplete or not the official ones."""


class PlanError(HoptrailError):
    """Raised when a plan is unusable and may not be repaired."""


class ToolError(HoptrailError):
    """Raised when a retrieval tool fails."""


class UnknownToolError(ToolError):
    """Raised when no tool of the given name is registered."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"No tool is called {name!r}: choose one of {', '.join(sorted(known))}.")
        self.name = name


class ToolTimeoutError(ToolError):
    """Raised when a tool does not return within its time."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"Tool {name!r} did not return within {seconds:g} s (HOPTRAIL_TOOL_TIMEOUT_S).")


class UnknownPlannerError(HoptrailError):
    """Raised when no planner of the given name is registered."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"No planner is called {name!r}: choose one of {', '.join(sorted(known))}.")
        self.name = name


class BudgetExceededError(HoptrailError):
    """Raised when a call is refused because it would exceed the run's cap."""

    def __init__(self, unit: str, *, cap: float, used: float, asked: float) -> None:
        super().__init__(
            f"This call needs up to {asked:g} {unit}, but {used:g} of the run's {cap:g} are used or reserved: "
            f"raise HOPTRAIL_MAX_{unit.upper()} to allow more."
        )
        self.unit, self.cap, self.used, self.asked = unit, cap, used, asked


class DeadlineExceededError(HoptrailError):
    """Raised when a step's or a run's time is up."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"The {what} did not end within {seconds:g} s: raise HOPTRAIL_{what.upper()}_DEADLINE_S.")


class TraceError(HoptrailError):
    """Raised when a trace file cannot be read back into a run."""
