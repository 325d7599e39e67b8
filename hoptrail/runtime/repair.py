"""From a plan as a model wrote it to a valid plan, or to a reason why there is none.

What is plainly meant is repaired and listed; what would have to be guessed (a circle, no usable step) is refused, and
the run goes on with the single-step plan.
"""

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hoptrail.errors import PlanError
from hoptrail.runtime.plan import Plan, Step, find_cycle, topological_order
from hoptrail.runtime.slots import canonical_slots, remove_slots, slots

__all__ = ["RawPlan", "RawStep", "Repaired", "repair_plan"]

MAX_STEP_CHARS = 1_000
MAX_DEPENDENCIES = 100
MAX_RAW_STEPS = 500
"""More than these are not even looked at: repair holds up everything else while it works."""


class RawStep(BaseModel):
    """One step as a model wrote it: any field may be missing, of the wrong type or contradict another."""

    model_config = ConfigDict(extra="ignore")

    id: int | str | float | None = None
    question: str = ""
    depends_on: list[int | str | float] = Field(default_factory=list)
    tool: str | None = None

    @field_validator("id", mode="before")
    @classmethod
    def _any_id(cls, value: object) -> object:
        return value if isinstance(value, int | str | float) and not isinstance(value, bool) else None

    @field_validator("question", mode="before")
    @classmethod
    def _any_question(cls, value: object) -> object:
        return value if isinstance(value, str) else ""

    @field_validator("tool", mode="before")
    @classmethod
    def _any_tool(cls, value: object) -> object:
        return value if isinstance(value, str) else None

    @field_validator("depends_on", mode="before")
    @classmethod
    def _any_dependencies(cls, value: object) -> object:
        items = value if isinstance(value, list) else [] if value is None else [value]
        scalars = [item for item in items if isinstance(item, int | str | float) and not isinstance(item, bool)]
        return scalars[:MAX_DEPENDENCIES]


class RawPlan(BaseModel):
    """A plan as a model wrote it."""

    model_config = ConfigDict(extra="ignore")

    summary: str = ""
    steps: list[RawStep] = Field(default_factory=list)

    @field_validator("summary", mode="before")
    @classmethod
    def _any_summary(cls, value: object) -> object:
        return value if isinstance(value, str) else ""

    @field_validator("steps", mode="before")
    @classmethod
    def _any_steps(cls, value: object) -> object:
        items = value[:MAX_RAW_STEPS] if isinstance(value, list) else []
        return [{"question": item} if isinstance(item, str) else item for item in items if isinstance(item, dict | str)]


@dataclass
class Repaired:
    """A valid plan and what was changed to make it so, one sentence each."""

    plan: Plan
    repairs: tuple[str, ...]


@dataclass
class _Draft:
    """A step on its way: `key` is the model's own id, `parents` are positions in the draft list."""

    key: int
    question: str
    wanted: list[int]
    tool: str | None
    parents: list[int] = field(default_factory=list)


def repair_plan(raw: RawPlan, question: str, *, tools: Collection[str], max_steps: int) -> Repaired:
    """Make `raw` a valid plan for `question`.

    Raises:
        PlanError: Nothing usable is left, or the steps depend on each other in a circle.
    """
    repairs: list[str] = []
    drafts = _drafts(raw, set(tools), repairs)
    if not drafts:
        raise PlanError("The plan has no step with a question.")
    places: dict[int, list[int]] = {}
    for position, draft in enumerate(drafts):
        places.setdefault(draft.key, []).append(position)
    for position, draft in enumerate(drafts):
        _resolve(position, draft, places, repairs)
    if cycle := find_cycle([draft.parents for draft in drafts]):
        raise PlanError(f"Steps {' -> '.join(str(drafts[i].key) for i in cycle)} depend on each other in a circle.")
    order = topological_order([draft.parents for draft in drafts])
    if order != tuple(range(len(drafts))):
        repairs.append("Steps were put in the order of their dependencies.")
    if len(order) > max_steps:
        repairs.append(f"The plan had {len(order)} steps; the first {max_steps} are kept.")
    kept = order[:max_steps]
    place = {position: number for number, position in enumerate(kept)}
    steps = tuple(_step(place, drafts[position], position) for position in kept)
    return Repaired(Plan(question=question, steps=steps), tuple(repairs))


def _drafts(raw: RawPlan, tools: set[str], repairs: list[str]) -> list[_Draft]:
    drafts: list[_Draft] = []
    for position, step in enumerate(raw.steps):
        text = " ".join(canonical_slots(step.question).split())
        if not remove_slots(text).strip(" ?.,"):
            repairs.append(f"The step at position {position} had no question and was left out.")
            continue
        if len(text) > MAX_STEP_CHARS:
            repairs.append(f"The question at position {position} was cut to {MAX_STEP_CHARS} characters.")
            text = (
                text[:MAX_STEP_CHARS].rsplit("<", 1)[0]
                if "<" in text[MAX_STEP_CHARS - 12 : MAX_STEP_CHARS]
                else text[:MAX_STEP_CHARS]
            )
        key = _number(step.id)
        if key is None:
            repairs.append(f"The step at position {position} had no usable id and takes its position.")
            key = position
        wanted = [number for item in step.depends_on if (number := _number(item)) is not None]
        if len(wanted) != len(step.depends_on):
            repairs.append(f"Step {key} named dependencies that are no step ids; they were left out.")
        tool = step.tool.strip() if step.tool and step.tool.strip() else None
        if tool is not None and tool not in tools:
            repairs.append(f"Step {key} asked for the unknown tool {tool[:40]!r}; it takes the default.")
            tool = None
        drafts.append(_Draft(key, text, wanted, tool))
    if [draft.key for draft in drafts] != list(range(len(drafts))):
        repairs.append("Step ids were not 0, 1, 2, … each once; steps were numbered anew.")
    return drafts


def _resolve(position: int, draft: _Draft, places: dict[int, list[int]], repairs: list[str]) -> None:
    """Turn the ids that `draft` refers to into positions, and its slots with them."""
    place: dict[int, int] = {}
    for key in dict.fromkeys((*draft.wanted, *slots(draft.question))):
        found = _find(key, position, places, own=key == draft.key)
        if found is None:
            why = "itself" if key == draft.key else f"step {key}, which does not exist"
            repairs.append(f"Step {draft.key} depended on {why}; the dependency was left out.")
            continue
        if key not in draft.wanted:
            repairs.append(f"Step {draft.key} has a slot for step {key}; the dependency was added.")
        place[key] = found
    draft.parents = list(dict.fromkeys(place.values()))
    draft.question = remove_slots(draft.question, place)


def _find(key: int, position: int, places: dict[int, list[int]], *, own: bool) -> int | None:
    """The step that `key` means at `position`: the nearest earlier one of that id, else the first later one.

    A step's `own` id never means a later step.
    """
    known = places.get(key, [])
    earlier = bisect_left(known, position)
    if earlier:
        return known[earlier - 1]
    return known[0] if known and not own else None


def _step(place: dict[int, int], draft: _Draft, position: int) -> Step:
    parents = tuple(place[parent] for parent in draft.parents)
    return Step(id=place[position], question=remove_slots(draft.question, place), depends_on=parents, tool=draft.tool)


def _number(value: str | float | None) -> int | None:
    """A step id as an integer: `2`, `"2"`, `2.0` and `"step 2"` all mean 2."""
    if isinstance(value, str):
        digits = "".join(c for c in value if c.isascii() and c.isdigit())
        return int(digits) if digits and len(digits) <= 6 else None  # noqa: PLR2004 - as slots
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e6 else None  # noqa: PLR2004
    return value if value is not None and abs(value) < 10**6 else None
