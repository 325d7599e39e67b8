"""What one step costs beyond its own work, and whether branches wait for each other: hoptrail beside other runtimes.

    python dev.py bench

Three shapes of steps that do nothing: a chain of 100, a fan-out of 100, and a skewed diamond (0.1 s then 0.1 s beside 0.3 s,
then a join; critical path 0.3 s). Every system runs every shape in the same process, in turns, so that a slow moment of the
machine hits all. hoptrail runs with its events on: each step emits `step.ready`, `step.bound` and `step.answered` to a sink
in memory. The others run their plainest asynchronous nodes without persistence.
The result goes to `benchmarks/results/runtime_overhead.json`.
"""

import asyncio
import gc
import json
import logging
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path

from environment import in_own_environment

HERE = Path(__file__).parent
RESULT = HERE / "results" / "runtime_overhead.json"
N = 100
ROUNDS = 15
GOAL_US = 50.0
DIAMOND_S = 0.3

Case = Callable[[], Awaitable[None]]


# -- hoptrail ---------------------------------------------------------------------------------------------------------


def hoptrail_case(dependencies: list[tuple[int, ...]], seconds: list[float], *, with_tool: bool = False) -> Case:
    """The executor over the runtime's own `StepRunner`; `with_tool` adds a retrieval by a tool that does nothing."""
    from hoptrail.client import Hoptrail
    from hoptrail.config import Settings
    from hoptrail.planners.single import SinglePlanner
    from hoptrail.runtime.answer import StepResult
    from hoptrail.runtime.executor import execute
    from hoptrail.runtime.plan import Plan, Step
    from hoptrail.runtime.steps import StepRunner
    from hoptrail.tools.base import Evidence
    from hoptrail.tools.registry import ToolRegistry

    class NoTool:
        name, description = "text", "Finds nothing."

        async def retrieve(self, query, *, k, **_):
            return Evidence(query=query, tool=self.name)

    plan = Plan(
        question="q", steps=tuple(Step(id=i, question=f"q{i}", depends_on=p) for i, p in enumerate(dependencies))
    )
    settings = Settings.load(fallback_tools=("text",))

    async def answer_step(run, step, question, evidence):
        if seconds[step.id]:
            await asyncio.sleep(seconds[step.id])
        return StepResult(id=step.id, question=question, answer="a")

    class NoRetriever:
        async def retrieve(self, query, **_):
            return Evidence(query=query, tool="text")

    async def case() -> None:
        kept = []
        hop = Hoptrail(settings, ToolRegistry([NoTool()]), sinks=[kept.append])
        run = hop.prepare("q", planner=SinglePlanner()).context
        if not with_tool:
            run.retriever = NoRetriever()
        await execute(plan, StepRunner(run, answer_step), results=run.results)
        assert len(kept) == (5 if with_tool else 3) * len(plan.steps)

    return case


def hoptrail_tool_case(dependencies: list[tuple[int, ...]], seconds: list[float]) -> Case:
    return hoptrail_case(dependencies, seconds, with_tool=True)


# -- bare anyio -------------------------------------------------------------------------------------------------------


def anyio_case(dependencies: list[tuple[int, ...]], seconds: list[float]) -> Case:
    import anyio

    children: list[list[int]] = [[] for _ in dependencies]
    for i, parents in enumerate(dependencies):
        for parent in parents:
            children[parent].append(i)

    async def case() -> None:
        missing = [len(parents) for parents in dependencies]
        async with anyio.create_task_group() as tasks:

            async def node(i: int) -> None:
                if seconds[i]:
                    await anyio.sleep(seconds[i])
                for child in children[i]:
                    missing[child] -= 1
                    if not missing[child]:
                        tasks.start_soon(node, child)

            for i, parents in enumerate(dependencies):
                if not parents:
                    tasks.start_soon(node, i)

    return case


# -- pydantic_graph ---------------------------------------------------------------------------------------------------


def pydantic_graph_case(dependencies: list[tuple[int, ...]], seconds: list[float]) -> Case:
    from pydantic_graph import GraphBuilder
    from pydantic_graph.join import reduce_null

    builder = GraphBuilder(input_type=int, output_type=int)

    def make(i: int):
        async def node(ctx) -> int:
            if seconds[i]:
                await asyncio.sleep(seconds[i])
            return i

        return builder.step(node, node_id=f"n{i}")

    nodes = [make(i) for i in range(len(dependencies))]
    children: dict[int, list[int]] = {}
    for i, parents in enumerate(dependencies):
        for parent in parents:
            children.setdefault(parent, []).append(i)
    joins = {
        i: builder.join(reduce_null, initial=None, node_id=f"j{i}") for i, p in enumerate(dependencies) if len(p) > 1
    }
    roots = [i for i, parents in enumerate(dependencies) if not parents]
    sinks = [i for i in range(len(dependencies)) if i not in children]
    end = builder.join(reduce_null, initial=None, node_id="end_join") if len(sinks) > 1 else None
    builder.add(builder.edge_from(builder.start_node).to(*[nodes[i] for i in roots]))
    for parent, after in children.items():
        builder.add(builder.edge_from(nodes[parent]).to(*[joins.get(i, nodes[i]) for i in after]))
    for i, join in joins.items():
        builder.add(builder.edge_from(join).to(nodes[i]))
    for i in sinks:
        builder.add(builder.edge_from(nodes[i]).to(end if end is not None else builder.end_node))
    if end is not None:
        builder.add(builder.edge_from(end).to(builder.end_node))
    graph = builder.build()

    async def case() -> None:
        await graph.run(inputs=0)

    return case


# -- LangGraph --------------------------------------------------------------------------------------------------------


def langgraph_case(dependencies: list[tuple[int, ...]], seconds: list[float]) -> Case:
    from typing import TypedDict

    from langgraph.graph import END, START, StateGraph

    class State(TypedDict, total=False):
        value: int

    builder = StateGraph(State)

    def make(i: int):
        async def node(state: State) -> dict:
            if seconds[i]:
                await asyncio.sleep(seconds[i])
            return {}

        return node

    used = {parent for parents in dependencies for parent in parents}
    for i, parents in enumerate(dependencies):
        builder.add_node(f"n{i}", make(i))
        if not parents:
            builder.add_edge(START, f"n{i}")
        elif len(parents) == 1:
            builder.add_edge(f"n{parents[0]}", f"n{i}")
        else:
            builder.add_edge([f"n{p}" for p in parents], f"n{i}")
        if i not in used:
            builder.add_edge(f"n{i}", END)
    graph = builder.compile()

    async def case() -> None:
        await graph.ainvoke({"value": 0}, {"recursion_limit": 10 * N})

    return case


# -- llama-index-workflows --------------------------------------------------------------------------------------------


def workflows_case(dependencies: list[tuple[int, ...]], seconds: list[float]) -> Case:
    from workflows import Context, Workflow, step
    from workflows.events import Event, StartEvent, StopEvent

    children: list[list[int]] = [[] for _ in dependencies]
    for i, parents in enumerate(dependencies):
        for parent in parents:
            children[parent].append(i)
    roots = [i for i, parents in enumerate(dependencies) if not parents]

    class Go(Event):
        i: int

    class Done(Event):
        i: int

    class Flow(Workflow):
        @step
        async def begin(self, ctx: Context, ev: StartEvent) -> Go | None:
            self.missing = [len(parents) for parents in dependencies]
            self.left = len(dependencies)
            for i in roots:
                ctx.send_event(Go(i=i))
            return None

        @step(num_workers=N)
        async def node(self, ctx: Context, ev: Go) -> Done:
            if seconds[ev.i]:
                await asyncio.sleep(seconds[ev.i])
            return Done(i=ev.i)

        @step(num_workers=1)
        async def after(self, ctx: Context, ev: Done) -> Go | StopEvent | None:
            self.left -= 1
            if not self.left:
                return StopEvent(result=None)
            for child in children[ev.i]:
                self.missing[child] -= 1
                if not self.missing[child]:
                    ctx.send_event(Go(i=child))
            return None

    async def case() -> None:
        await Flow(timeout=60).run()

    return case


SYSTEMS = {
    "hoptrail": hoptrail_case,
    "hoptrail, one tool call": hoptrail_tool_case,
    "anyio (bare)": anyio_case,
    "pydantic_graph": pydantic_graph_case,
    "LangGraph": langgraph_case,
    "llama-index-workflows": workflows_case,
}
SHAPES: dict[str, tuple[list[tuple[int, ...]], list[float]]] = {
    "chain": ([(), *((i,) for i in range(N - 1))], [0.0] * N),
    "fan-out": ([(), *((0,) for _ in range(N - 1))], [0.0] * N),
    "diamond": ([(), (0,), (), (1, 2)], [0.1, 0.1, 0.3, 0.0]),
}


async def measure() -> dict[str, dict[str, list[float]]]:
    cases = {(system, shape): make(*SHAPES[shape]) for system, make in SYSTEMS.items() for shape in SHAPES}
    times: dict[str, dict[str, list[float]]] = {system: {shape: [] for shape in SHAPES} for system in SYSTEMS}
    for number in range(ROUNDS + 2):
        for (system, shape), case in cases.items():
            if shape == "diamond" and number > 5:
                continue
            gc.collect()
            started = time.perf_counter()
            await case()
            spent = time.perf_counter() - started
            if number >= 2:  # the first two rounds warm up
                times[system][shape].append(spent)
    return times


def summary(times: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, dict[str, float]]]:
    result: dict[str, dict[str, dict[str, float]]] = {}
    for system, shapes in times.items():
        result[system] = {}
        for shape, values in shapes.items():
            scale = 1e3 if shape == "diamond" else 1e6 / N
            low, middle, high = statistics.quantiles([v * scale for v in values], n=4)
            unit = "ms" if shape == "diamond" else "us per step"
            result[system][shape] = {"median": middle, "q1": low, "q3": high, "unit": unit}
    return result


def show(now: dict, before: dict | None) -> None:
    print(f"{'':24}{'chain us/step':>16}{'fan-out us/step':>18}{'diamond ms':>14}{'x hoptrail (chain)':>20}")
    for system, shapes in now.items():
        ratio = shapes["chain"]["median"] / now["hoptrail"]["chain"]["median"]
        print(
            f"{system:24}{shapes['chain']['median']:16.1f}{shapes['fan-out']['median']:18.1f}"
            f"{shapes['diamond']['median']:14.1f}{ratio:20.2f}"
        )
    if before:
        for shape in SHAPES:
            old = before["hoptrail"][shape]["median"] / before["anyio (bare)"][shape]["median"]
            new = now["hoptrail"][shape]["median"] / now["anyio (bare)"][shape]["median"]
            print(f"{shape}: {new:.2f} times bare anyio, {old:.2f} in the last kept result")


def main() -> None:
    if in_own_environment("langgraph", "llama-index-workflows"):
        return
    logging.disable(logging.CRITICAL)
    now = summary(asyncio.run(measure()))
    before = json.loads(RESULT.read_text())["systems"] if RESULT.exists() else None
    show(now, before)
    packages = ("anyio", "pydantic-graph", "langgraph", "llama-index-workflows")
    kept = {
        "python": platform.python_version(),
        "rounds": ROUNDS,
        "versions": {p: version(p) for p in packages},
        "systems": now,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(kept, indent=1) + "\n")
    own = now["hoptrail"]
    slowest = max(own["chain"]["median"], own["fan-out"]["median"])
    print(f"goal: at most {GOAL_US:.0f} us per step: {'met' if slowest <= GOAL_US else 'MISSED'} ({slowest:.1f})")
    print(f"diamond: {own['diamond']['median'] / (DIAMOND_S * 1e3) - 1:+.2%} of its critical path")


if __name__ == "__main__":
    main()
