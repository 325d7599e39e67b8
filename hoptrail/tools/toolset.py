"""The registry as a pydantic-ai toolset, for agents that call retrieval tools themselves."""

from typing import Any

from pydantic_ai import FunctionToolset
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import Tool as AgentTool

from hoptrail.tools.base import Tool
from hoptrail.tools.registry import ToolRegistry

__all__ = ["retrieval_toolset"]

MAX_K = 20


def retrieval_toolset(registry: ToolRegistry, *, k: int = 3) -> FunctionToolset[Any]:
    """A toolset with one function per tool of `registry`, each taking `query` and `k` and returning evidence as JSON.

    `k` is what agents get that do not ask for a number; at most 20 passages are given. A tool that fails tells the agent
    so instead of ending its run.
    """
    return FunctionToolset([_function(registry.get(name), k) for name in registry.names])


def _function(tool: Tool, default_k: int) -> AgentTool[Any]:
    async def retrieve(query: str, k: int = default_k) -> dict[str, Any]:
        try:
            evidence = await tool.retrieve(query, k=min(max(k, 1), MAX_K))
        except Exception as error:
            raise ToolFailed(f"{tool.name} failed: {' '.join(str(error).split())[:300]}") from error
        return evidence.model_dump(mode="json")

    return AgentTool(retrieve, name=tool.name, description=tool.description, takes_ctx=False)
