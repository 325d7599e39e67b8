"""The face: open a corpus, ask questions, follow runs."""

import asyncio
import functools
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import anyio
from pydantic_ai.models import Model

from hoptrail.config import Settings
from hoptrail.corpus.corpus import Corpus
from hoptrail.corpus.place import Place
from hoptrail.errors import ConfigurationError, DeadlineExceededError, HoptrailError, QuestionError
from hoptrail.models.base import LanguageModel
from hoptrail.models.budget import Budget
from hoptrail.models.embeddings import open_embedder
from hoptrail.models.language import open_language_model, wrap_model
from hoptrail.planners.registry import open_planner
from hoptrail.runtime.answer import Answer
from hoptrail.runtime.calls import ModelCaller
from hoptrail.runtime.context import Planner, RunContext
from hoptrail.runtime.log import EventLog, Sink
from hoptrail.runtime.plan import Plan
from hoptrail.runtime.retrieval import Retriever
from hoptrail.runtime.run import Run
from hoptrail.runtime.steps import AnswerStep
from hoptrail.runtime.stream import RunStream
from hoptrail.runtime.trace import trace_sink
from hoptrail.tools.base import Tool
from hoptrail.tools.registry import ToolRegistry, open_tools

__all__ = ["Hoptrail", "ask"]


class Hoptrail:
    """A corpus with its tools and a language model, ready to be asked.

        async with Hoptrail.open("my-corpus") as hop:
            answer = await hop.ask("Who …?")

    Any number of questions may be asked at once; the limits on model and tool calls hold over all of them. The model is
    opened by the first question that needs it and closed with this object.
    """

    def __init__(
        self, settings: Settings, tools: ToolRegistry, *, model: Model | None = None, sinks: Sequence[Sink] = ()
    ) -> None:
        self.settings = settings
        self.tools = tools
        self._given = model
        self._sinks = list(sinks)
        self._resources = ExitStack()
        if settings.trace is not None:
            self._sinks.append(self._resources.enter_context(trace_sink(settings.trace, settings.trace_content)))
        self._language_model: LanguageModel | None = None
        self._opening = anyio.Lock()
        self._ahead: asyncio.Task[None] | None = None
        self._closed = False
        self._model_limiter = anyio.CapacityLimiter(settings.model_concurrency)
        self._tool_limiter = anyio.CapacityLimiter(settings.tool_concurrency)

    @classmethod
    def open(
        cls,
        corpus: str | Path | None = None,
        *,
        model: str | Model | None = None,
        tools: Sequence[Tool] = (),
        sinks: Sequence[Sink] = (),
        settings: Settings | None = None,
        **overrides: Any,
    ) -> Self:
        """Open the corpus at `corpus`.

        `model` is a model string or any pydantic-ai model; `tools` are further retrieval tools; each of `sinks` is called
        with every event; `overrides` are fields of `Settings`.

        Raises:
            CorpusError: There is no usable corpus there.
            ConfigurationError: A setting is wrong.
        """
        named = model if isinstance(model, str) else None
        base = settings.model_dump(exclude_unset=True) if settings else {}
        chosen = Settings.load(**{**base, **_given(corpus=corpus, model=named), **overrides})
        opened = Corpus.open(Place.configured(chosen), functools.partial(open_embedder, chosen))
        registry = open_tools(opened, chosen)
        for tool in tools:
            registry.register(tool)
        registry.get(chosen.tool)
        open_planner(chosen.planner)
        hop = cls(chosen, registry, model=model if isinstance(model, Model) else None, sinks=sinks)
        hop._resources.callback(opened.close)
        return hop

    async def ask(self, question: str, *, planner: str | Planner | None = None, tool: str | None = None) -> Answer:
        """The answer to `question`, with its citations, plan, evidence and usage.

        A run that is stopped by its deadline or its budget returns what is known by then, marked `partial`.

        Raises:
            QuestionError: The question is empty or too long.
            UnknownPlannerError, UnknownToolError: No such planner or tool.
            ModelError: The model cannot be used at all.
        """
        run = self.prepare(question, planner=planner, tool=tool)
        self._open_ahead()
        return await run.execute()

    def stream(self, question: str, *, planner: str | Planner | None = None, tool: str | None = None) -> RunStream:
        """Start a run in the background and follow its events; raises as `ask` does."""
        run = self.prepare(question, planner=planner, tool=tool)
        self._open_ahead()
        return RunStream(run)

    async def plan(self, question: str, *, planner: str | Planner | None = None, tool: str | None = None) -> Plan:
        """The plan that `ask` would run, not run; raises as `ask` does."""
        run = self.prepare(question, planner=planner, tool=tool)
        run.begin()
        seconds = self.settings.run_deadline_s
        try:
            with anyio.move_on_after(seconds):
                return await run.planner.plan(run.context)
        finally:
            run.abandon()
        raise DeadlineExceededError("run", seconds or 0.0)

    def prepare(
        self,
        question: str,
        *,
        planner: str | Planner | None = None,
        tool: str | None = None,
        answer_step: AnswerStep | None = None,
    ) -> Run:
        """A run that has not begun; `answer_step` replaces how steps are answered from their evidence."""
        if self._closed:
            raise ConfigurationError("This Hoptrail is closed: open another one to ask.")
        checked = self._check(question)
        if tool is not None:
            self.tools.get(tool)
        chosen = planner or self.settings.planner
        log = EventLog(uuid4().hex, self._sinks)
        context = RunContext(
            question=checked,
            settings=self.settings,
            log=log,
            retriever=Retriever(self.tools, self.settings, log, self._tool_limiter),
            caller=ModelCaller(self._open_model, self.settings, log, self._budget(), self._model_limiter),
            tool=tool,
        )
        return Run(context, open_planner(chosen) if isinstance(chosen, str) else chosen, answer_step)

    async def aclose(self) -> None:
        """Close the model and the corpus; may be called twice."""
        self._closed = True
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.wait([self._ahead])
        if self._language_model is not None:
            await self._language_model.aclose()
            self._language_model = None
        self._resources.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.aclose()

    def _open_ahead(self) -> None:
        """Begin to open the model while the first retrieval loads its own parts; a server takes seconds to start."""
        if self._language_model is None and self._ahead is None:
            self._ahead = asyncio.get_running_loop().create_task(self._try_to_open())

    async def _try_to_open(self) -> None:
        # What goes wrong here goes wrong again where the model is needed, and is told there.
        with suppress(HoptrailError):
            await self._open_model()

    def _budget(self) -> Budget:
        return Budget(self.settings.max_calls, self.settings.max_tokens, self.settings.max_cost)

    def _check(self, question: str) -> str:
        text = question.strip()
        if not text:
            raise QuestionError("The question is empty: ask something.")
        if len(text) > self.settings.max_question_chars:
            raise QuestionError(
                f"The question has {len(text):,} characters, more than {self.settings.max_question_chars:,}: "
                "shorten it, or raise HOPTRAIL_MAX_QUESTION_CHARS."
            )
        return text

    async def _open_model(self) -> LanguageModel:
        async with self._opening:
            if self._language_model is None:
                if self._given is not None:
                    self._language_model = wrap_model(self._given, self.settings)
                else:
                    self._language_model = await open_language_model(self.settings)
            return self._language_model


async def ask(
    question: str, *, corpus: str | Path | None = None, model: str | Model | None = None, **overrides: Any
) -> Answer:
    """Ask one question of a corpus and close everything again; see `Hoptrail.open` and `Hoptrail.ask`."""
    async with Hoptrail.open(corpus, model=model, **overrides) as hop:
        return await hop.ask(question)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
