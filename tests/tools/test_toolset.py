import json
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hoptrail.testing.doubles import FakeTool
from hoptrail.tools.base import Evidence
from hoptrail.tools.registry import ToolRegistry
from hoptrail.tools.toolset import retrieval_toolset


def out_of_order(query: str) -> list[str]:
    raise KeyError(query)


def registry() -> ToolRegistry:
    return ToolRegistry(
        [FakeTool("numbers", lambda query: [f"{query} {n}" for n in range(50)]), FakeTool("faulty", out_of_order)]
    )


class Calling:
    """A model that makes the given calls at once, then says what came back."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = calls
        self.offered: dict[str, dict[str, Any]] = {}

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered = {tool.name: tool.parameters_json_schema for tool in info.function_tools}
        returned = [p for p in messages[-1].parts if isinstance(p, ToolReturnPart)]
        if returned:
            return ModelResponse(
                parts=[
                    TextPart(
                        json.dumps(
                            [
                                json.loads(p.model_response_str()) if p.outcome == "success" else p.model_response_str()
                                for p in returned
                            ]
                        )
                    )
                ]
            )
        return ModelResponse(parts=[ToolCallPart(name, args) for name, args in self.calls])


async def test_an_agent_gets_evidence_as_data() -> None:
    model = Calling(
        ("numbers", {"query": "a"}), ("numbers", {"query": "b", "k": 1}), ("numbers", {"query": "c", "k": 999})
    )
    agent = Agent(FunctionModel(model), toolsets=[retrieval_toolset(registry())])
    result = await agent.run("go")
    found = [Evidence.model_validate(item) for item in json.loads(result.output)]
    assert [(e.query, e.tool, len(e.hits)) for e in found] == [
        ("a", "numbers", 3),
        ("b", "numbers", 1),
        ("c", "numbers", 20),
    ]
    assert found[0].hits[0].text == "a 0"
    schema = model.offered["numbers"]
    assert schema["required"] == ["query"]
    assert schema["properties"]["k"]["default"] == 3


async def test_a_tool_that_fails_tells_the_agent_and_the_run_goes_on() -> None:
    agent = Agent(FunctionModel(Calling(("faulty", {"query": "x"}))), toolsets=[retrieval_toolset(registry())])
    result = await agent.run("go")
    assert "faulty failed" in result.output


async def test_toolsets_can_be_filtered_and_prefixed() -> None:
    toolset = retrieval_toolset(registry(), k=7).filtered(lambda _, tool: tool.name == "numbers").prefixed("my")
    model = Calling(("my_numbers", {"query": "a"}))
    result = await Agent(FunctionModel(model), toolsets=[toolset]).run("go")
    assert list(model.offered) == ["my_numbers"]
    assert len(json.loads(result.output)[0]["hits"]) == 7
