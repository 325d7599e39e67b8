"""The plan: a validated dependency DAG of sub-questions (ConRAG, section 3.3)."""

from collections.abc import Sequence

import rustworkx as rx
from pydantic import BaseModel, ConfigDict, model_validator

from hoptrail.errors import PlanError
from hoptrail.runtime.slots import inert, slots

__all__ = ["Plan", "Step"]


class Step(BaseModel):
    """One sub-question.

    `depends_on` lists the direct predecessors in the order their summaries are shown to the step. `question` may hold
    `<dep:j>` slots for them. `tool` is the retrieval tool asked for, or `None` for the run's default.
    """

    model_config = ConfigDict(frozen=True)

    id: int
    question: str
    depends_on: tuple[int, ...] = ()
    tool: str | None = None


class Plan(BaseModel):
    """Steps with zero-based contiguous ids whose dependencies form a DAG.

    Raises:
        PlanError: When built from steps that break a rule; the message names the step and the rule. Use
            `hoptrail.runtime.repair.repair_plan` for plans that a model wrote.
    """

    model_config = ConfigDict(frozen=True)

    question: str
    steps: tuple[Step, ...]

    @model_validator(mode="after")
    def _check(self) -> "Plan":
        if not self.steps:
            raise PlanError("The plan has no steps.")
        if [step.id for step in self.steps] != list(range(len(self.steps))):
            raise PlanError(f"Step ids must be 0 to {len(self.steps) - 1} in order, each once.")
        for step in self.steps:
            _check_step(step, len(self.steps))
        if cycle := find_cycle([step.depends_on for step in self.steps]):
            raise PlanError(f"Steps {' -> '.join(map(str, cycle))} depend on each other in a circle.")
        return self

    @classmethod
    def single(cls, question: str, tool: str | None = None) -> "Plan":
        """The plan that asks `question` itself in one step."""
        return cls(question=question, steps=(Step(id=0, question=inert(question), tool=tool),))

    @property
    def is_single(self) -> bool:
        """Whether this is the single-step plan of its own question."""
        return len(self.steps) == 1 and self.steps[0].question == inert(self.question)

    @property
    def order(self) -> tuple[int, ...]:
        """Step ids in topological order; among free choices the smaller id first."""
        graph = _graph([step.depends_on for step in self.steps])
        return tuple(rx.lexicographical_topological_sort(graph, key=lambda i: f"{i:09d}"))

    @property
    def sinks(self) -> tuple[int, ...]:
        """Ids of the steps that no other step depends on."""
        used = {j for step in self.steps for j in step.depends_on}
        return tuple(step.id for step in self.steps if step.id not in used)

    def extended(self, steps: Sequence[Step]) -> "Plan":
        """The plan with `steps` appended; their ids continue it."""
        return Plan(question=self.question, steps=(*self.steps, *steps))

    def mermaid(self) -> str:
        """The plan as a Mermaid flowchart."""
        lines = ["flowchart TD"]
        for step in self.steps:
            label = step.question.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
            lines.append(f'    s{step.id}["{step.id}: {" ".join(label.split())}"]')
            lines.extend(f"    s{j} --> s{step.id}" for j in step.depends_on)
        return "\n".join(lines)


def find_cycle(dependencies: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Ids along one cycle of `dependencies` (predecessors by step), or empty when there is none."""
    edges = rx.digraph_find_cycle(_graph(dependencies))
    return (*(edge[0] for edge in edges), edges[-1][1]) if edges else ()


def topological_order(dependencies: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Positions in topological order, the smaller first among free choices; `dependencies` must be acyclic."""
    return tuple(rx.lexicographical_topological_sort(_graph(dependencies), key=lambda i: f"{i:09d}"))


def _graph(dependencies: Sequence[Sequence[int]]) -> "rx.PyDiGraph[int, None]":
    graph: rx.PyDiGraph[int, None] = rx.PyDiGraph()
    graph.add_nodes_from(range(len(dependencies)))
    graph.add_edges_from_no_data([(j, i) for i, parents in enumerate(dependencies) for j in parents])
    return graph


def _check_step(step: Step, count: int) -> None:
    if not step.question.strip():
        raise PlanError(f"Step {step.id} has no question.")
    if len(set(step.depends_on)) != len(step.depends_on):
        raise PlanError(f"Step {step.id} names a dependency twice.")
    for j in step.depends_on:
        if j == step.id:
            raise PlanError(f"Step {step.id} depends on itself.")
        if not 0 <= j < count:
            raise PlanError(f"Step {step.id} depends on step {j}, which does not exist.")
    for j in slots(step.question):
        if j not in step.depends_on:
            raise PlanError(f"Step {step.id} has a slot <dep:{j}> but does not depend on step {j}.")
