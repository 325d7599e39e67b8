"""The planners by name, those of other distributions included (entry points of group `hoptrail.planners`)."""

from collections.abc import Callable
from importlib.metadata import entry_points

from hoptrail.errors import UnknownPlannerError
from hoptrail.planners.dag import DagPlanner
from hoptrail.planners.single import SinglePlanner
from hoptrail.runtime.context import Planner

__all__ = ["describe_planners", "open_planner"]

GROUP = "hoptrail.planners"
_BUILT_IN: dict[str, Callable[[], Planner]] = {"dag": DagPlanner, "single": SinglePlanner}


def open_planner(name: str) -> Planner:
    """A new planner of that name.

    Raises:
        UnknownPlannerError: No planner is registered under it.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    for point in entry_points(group=GROUP, name=name):
        planner: Planner = point.load()()
        return planner
    raise UnknownPlannerError(name, [*_BUILT_IN, *entry_points(group=GROUP).names])


def describe_planners() -> list[tuple[str, str]]:
    """Name and description of the built-in planners, and the names of those of other distributions."""
    others = [(point.name, f"from {point.value}") for point in entry_points(group=GROUP) if point.name not in _BUILT_IN]
    return [(name, factory().description) for name, factory in _BUILT_IN.items()] + others
