"""A run's events as a tree."""

from collections.abc import Sequence

from rich.markup import escape
from rich.tree import Tree

from hoptrail.runtime.events import (
    Event,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    PlanCreated,
    PlanExtended,
    PlanRejected,
    PlanRepaired,
    RunCancelled,
    RunExpired,
    RunFailed,
    RunFinished,
    RunStarted,
    StepAnswered,
    StepBound,
    StepFailed,
    StepReady,
    ToolFailed,
    ToolFallback,
    ToolFinished,
)
from hoptrail.tools.base import Hit

__all__ = ["run_tree"]

_TITLE_CHARS = 60


def run_tree(events: Sequence[Event]) -> Tree:
    """The run as a tree: the planner's calls, each step with its calls, the end; times are seconds from the start."""
    first = events[0]
    question = first.question if isinstance(first, RunStarted) else ""
    planner = f", {first.planner}" if isinstance(first, RunStarted) else ""
    tree = Tree(f"[bold]{escape(question)}[/bold]  [dim]{first.run_id[:12]}{planner}[/dim]")
    branches: dict[int | None, Tree] = {None: tree}
    prompts: dict[int, str] = {}
    for event in events:
        if isinstance(event, StepReady):
            branches[event.step] = tree.add(f"step {event.step}{_at(event, first)}")
        elif isinstance(event, ModelStarted):
            prompts[event.call] = f"{event.prompt} v{event.version}"
        else:
            _add(branches.get(event.step, tree), event, first, prompts)
    return tree


def _add(branch: Tree, event: Event, first: Event, prompts: dict[int, str]) -> None:
    if isinstance(event, ToolFinished):
        node = branch.add(
            f"tool [cyan]{escape(event.tool)}[/cyan] {event.seconds:.3f} s, {len(event.hits)} hits{_at(event, first)}"
        )
        for hit in event.hits:
            node.add(_hit(hit))
    elif isinstance(event, PlanCreated | PlanExtended):
        steps = event.plan.steps if isinstance(event, PlanCreated) else event.steps
        node = branch.add(f"{event.type}{_at(event, first)}")
        for step in steps:
            after = f" after {', '.join(map(str, step.depends_on))}" if step.depends_on else ""
            node.add(
                f"{step.id}: {escape(step.question)}[dim]{after}{f' by {escape(step.tool)}' if step.tool else ''}[/dim]"
            )
    elif line := _line(event, prompts):
        branch.add(f"{line}{_at(event, first)}")


def _line(event: Event, prompts: dict[int, str]) -> str:  # noqa: PLR0911 - one line per type of event
    match event:
        case ModelFinished():
            use = event.usage
            error = f" [red]{event.error}: {escape(event.message)}[/red]" if event.error else ""
            asked = prompts.get(event.call, "")
            return f"model {asked} {use.seconds:.3f} s, {use.input_tokens} + {use.output_tokens} tokens{error}"
        case ModelRetried():
            return f"[yellow]model again in {event.wait:.1f} s[/yellow]: {escape(event.reason)}"
        case ToolFailed():
            return f"tool {escape(event.tool)} [red]{event.error}[/red] {escape(event.message)}"
        case ToolFallback():
            return f"[yellow]fallback[/yellow] {escape(event.failed)} ({event.reason}) to {escape(event.next)}"
        case PlanRepaired():
            return f"[yellow]plan repaired[/yellow]: {escape(' '.join(event.repairs))}"
        case PlanRejected():
            return f"[yellow]plan rejected[/yellow]: {escape(event.reason)}"
        case StepBound():
            return f"asks {escape(event.question)}"
        case StepAnswered():
            cited = f" [dim]cites {escape(', '.join(event.citations))}[/dim]" if event.citations else ""
            return f"answers [green]{escape(event.answer)}[/green]{cited}"
        case StepFailed():
            return f"[red]failed[/red] {event.error}: {escape(event.message)}"
        case _:
            return _end(event)


def _end(event: Event) -> str:
    match event:
        case RunFinished() | RunExpired():
            use = event.usage
            note = f" [yellow]partial: {escape(event.reason or '')}[/yellow]" if event.partial else ""
            return (
                f"{event.type} [bold green]{escape(event.text)}[/bold green]{note} "
                f"[dim]{use.calls} calls, {use.tokens} tokens, ${use.cost:.4f}, {use.seconds:.3f} s[/dim]"
            )
        case RunFailed():
            return f"[red]run.failed {event.error}[/red]: {escape(event.message)}"
        case RunCancelled():
            return "[yellow]run.cancelled[/yellow]"
        case _:
            return ""


def _hit(hit: Hit) -> str:
    views = ", ".join(f"{escape(name)} {score:.3f}" for name, score in hit.views.items())
    title = escape(" ".join(hit.title.split())[:_TITLE_CHARS])
    return f"{hit.score:.3f} {title} [dim]{escape(hit.id)}{f' ({views})' if views else ''}[/dim]"


def _at(event: Event, first: Event) -> str:
    return f" [dim]+{event.time - first.time:.3f}[/dim]"
