"""`hoptrail ask` and `hoptrail plan`."""

from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.markup import escape

from hoptrail.cli.console import errors, output
from hoptrail.cli.options import BaseUrl, CorpusPath, Json, ModelName, PlannerName, ToolName
from hoptrail.client import Hoptrail
from hoptrail.config import TraceContent
from hoptrail.runtime.answer import Answer
from hoptrail.runtime.events import (
    Event,
    ModelRetried,
    PlanCreated,
    PlanRejected,
    PlanRepaired,
    StepAnswered,
    StepBound,
    StepFailed,
    ToolFallback,
)
from hoptrail.runtime.plan import Plan

__all__ = ["ask", "plan"]

Question = Annotated[str, typer.Argument(help="The question.")]


def ask(
    question: Question,
    *,
    corpus: CorpusPath = None,
    planner: PlannerName = None,
    tool: ToolName = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    json: Json = False,
    trace: Annotated[Path | None, typer.Option(help="Append the run's events to this file (HOPTRAIL_TRACE).")] = None,
    trace_content: Annotated[
        TraceContent | None, typer.Option(help="Text in the trace (HOPTRAIL_TRACE_CONTENT).")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds after which what is known is returned.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not report steps while they run.")] = False,
) -> None:
    """Answer QUESTION from the corpus, with citations."""

    async def run() -> Answer:
        hop = Hoptrail.open(
            corpus,
            model=model,
            base_url=base_url,
            planner=planner,
            trace=trace,
            trace_content=trace_content,
            run_deadline_s=deadline,
            sinks=() if quiet or json else (_report,),
        )
        async with hop:
            return await hop.ask(question, tool=tool)

    answer = anyio.run(run)
    if json:
        output.print_json(answer.model_dump_json())
    else:
        _show(answer)


def plan(
    question: Question,
    *,
    corpus: CorpusPath = None,
    planner: PlannerName = None,
    tool: ToolName = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    json: Json = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print the plan as a Mermaid flowchart.")] = False,
) -> None:
    """Show the plan for QUESTION without running it."""

    async def run() -> Plan:
        hop = Hoptrail.open(corpus, model=model, base_url=base_url, planner=planner, sinks=(_report_plan,))
        async with hop:
            return await hop.plan(question, tool=tool)

    made = anyio.run(run)
    if json:
        output.print_json(made.model_dump_json())
    elif mermaid:
        output.print(made.mermaid(), markup=False)
    else:
        for line in _plan_lines(made):
            output.print(line, markup=False)


def _plan_lines(made: Plan) -> list[str]:
    lines = []
    for step in made.steps:
        after = f"  (after {', '.join(map(str, step.depends_on))})" if step.depends_on else ""
        tool = f"  [{step.tool}]" if step.tool else ""
        lines.append(f"{step.id}. {step.question}{tool}{after}")
    return lines


def _show(answer: Answer) -> None:
    output.print(f"[bold]{escape(answer.text)}[/bold]")
    for citation in answer.citations:
        quote = " ".join(citation.quote.split())
        output.print(f"  [{citation.number}] {citation.title} ({citation.id}): {quote}", markup=False)
    if answer.partial:
        errors.print(f"Partial: {answer.reason}", markup=False, style="yellow")
    use = answer.usage
    errors.print(
        f"{len(answer.plan.steps)} steps, {use.calls} model calls, {use.input_tokens:,} + {use.output_tokens:,} tokens, "
        f"${use.cost:.4f}, {use.seconds:.1f} s",
        style="dim",
    )


def _report(event: Event) -> None:
    """Tell on standard error what a run is doing."""
    match event:
        case PlanCreated():
            _dim("plan")
            for line in _plan_lines(event.plan):
                _dim(f"  {line}")
        case StepBound() if event.values:
            _dim(f"step {event.step}: {event.question}")
        case StepAnswered():
            _dim(f"step {event.step} -> {event.answer}")
        case StepFailed():
            _dim(f"step {event.step} failed: {event.message}")
        case ToolFallback():
            _dim(f"step {event.step}: tool {event.failed} ({event.reason}), next is {event.next}")
        case ModelRetried():
            _dim(f"model call {event.call} again in {event.wait:.1f} s: {event.reason}")
        case _:
            _report_plan(event)


def _report_plan(event: Event) -> None:
    match event:
        case PlanRepaired():
            _dim(f"plan repaired: {' '.join(event.repairs)}")
        case PlanRejected():
            _dim(f"plan rejected, asking in one step: {event.reason}")
        case _:
            pass


def _dim(text: str) -> None:
    errors.print(text, markup=False, style="dim")
