"""Extraction by a language model: one typed call a passage, several side by side, within a budget.

What is not tried because a cap is reached or the endpoint refuses everything is no failure of a passage: it is left for the
next indexing. Passages of the same title and text are asked about once.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from hoptrail.config import Settings
from hoptrail.corpus.extraction import Extraction, ExtractionFailure, ExtractionStop
from hoptrail.corpus.extractors.costs import CostMeter, passage_key, worth_asking
from hoptrail.corpus.extractors.grounding import Schema, grounded
from hoptrail.corpus.types import Passage
from hoptrail.errors import (
    BudgetExceededError,
    ConfigurationError,
    HoptrailError,
    ModelAccessError,
    ModelError,
    ModelFileError,
    ModelUnavailableError,
)
from hoptrail.models.base import LanguageModel
from hoptrail.models.budget import Budget, Estimate
from hoptrail.models.language import embedded_ways, is_embedded, model_name, open_language_model
from hoptrail.models.nlp import split_sentences
from hoptrail.models.prices import Prices
from hoptrail.models.typed import TypedCaller
from hoptrail.prompts.extraction import EXTRACTION, ExtractionOutput, render_extraction

__all__ = ["LlmExtractor", "extractor_name"]

Result = Extraction | ExtractionFailure | ExtractionStop
T = TypeVar("T")

_SILENT = 8
"""An endpoint that has not answered this many passages in a row, or twice those in flight, is taken to be down."""

_KNOWN = 10_000
"""Answers kept in memory, for passages that say the same."""


class LlmExtractor:
    """Asks the settings' language model about every passage; the model is opened by the first one.

    `budget` is what may be spent in all; by default the settings' caps.
    """

    def __init__(self, settings: Settings, *, budget: Budget | None = None) -> None:
        self.name = extractor_name(settings)
        self.budget = budget or Budget(settings.max_calls, settings.max_tokens, settings.max_cost)
        self._settings = settings
        self._schema = Schema(settings.entity_types, settings.relation_labels)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._model: LanguageModel | None = None
        self._caller: TypedCaller | None = None
        self._known: dict[bytes, ExtractionOutput] = {}

    def extract(self, passages: Sequence[Passage]) -> Iterator[Result]:
        """One result for each passage, in order, each as soon as it is there.

        A passage whose call fails is a failure; those that are not tried are stops, with the reason.

        Raises:
            ModelError: The model cannot be opened.
            ConfigurationError: Its settings are wrong, or a cap on money is set without a known price.
        """
        questions = {passage_key(p): _Question(p) for p in passages if worth_asking(p)}
        for key in questions.keys() & self._known.keys():
            questions[key].answer.set_result(self._known[key])
        asked = [question for question in questions.values() if not question.answer.done()]
        split_sentences([])  # loads the pipeline now: what is answered meanwhile would be lost by an interruption
        task = self._start(self._ask_all, asked) if asked else None
        try:
            for passage in passages:
                key = passage_key(passage)
                yield self._result(passage, key, questions.get(key))
        finally:
            if task is not None:
                task.cancel()

    def estimate(self, passages: Iterable[Passage]) -> Estimate:
        """What extracting from `passages` will take, from their length; no model is called.

        Raises:
            ConfigurationError: The model's settings are wrong, or its key is missing.
        """
        if is_embedded(self._settings):
            mode, guided = embedded_ways(self._settings)
            return CostMeter(self._settings, self._schema, mode, guided, Prices()).of(passages)
        model = self._start(self._language_model).result()
        prices = Prices.known(model, self._settings)
        return CostMeter(self._settings, self._schema, model.output_mode, model.guided, prices).of(passages)

    def close(self) -> None:
        """Let go of the model; may be called twice."""
        self._stack.close()
        self._model = None
        self._caller = None
        self._portal = None

    def _result(self, passage: Passage, key: bytes, question: "_Question | None") -> Result:
        found = question.answer.result() if question is not None else None
        if isinstance(found, ExtractionFailure | ExtractionStop):
            return found
        (sentences,) = split_sentences([passage.text])
        if found is None:
            return Extraction(sentences=sentences)
        self._known[key] = found
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return grounded(found, passage, sentences, self._schema)

    async def _ask_all(self, questions: list["_Question"]) -> None:
        try:
            asking = _Asking(await self._opened(), self._settings, self._schema, questions)
            async with anyio.create_task_group() as tasks:
                for _ in range(min(self._settings.model_concurrency, len(questions))):
                    tasks.start_soon(asking.work)
            asking.end()
        except BaseException as error:
            # Whoever waits for an answer has to learn that there will be none.
            for question in questions:
                if not question.answer.done():
                    question.answer.set_exception(error)
            raise

    async def _opened(self) -> TypedCaller:
        if self._caller is None:
            self._caller = TypedCaller(await self._language_model(), self._settings, self.budget)
        return self._caller

    async def _language_model(self) -> LanguageModel:
        if self._model is None:
            model = self._model = await open_language_model(self._settings)
            self._stack.callback(lambda: self._start(model.aclose).result())
        return self._model

    def _start(self, function: Callable[..., Awaitable[T]], *arguments: object) -> Future[T]:
        """Run on the event loop, which has a thread of its own."""
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal())
        return self._portal.start_task_soon(function, *arguments)


@dataclass(eq=False)
class _Question:
    """A passage that the model is asked about, and what comes of it."""

    passage: Passage
    answer: Future[ExtractionOutput | ExtractionFailure | ExtractionStop] = field(default_factory=Future)


@dataclass
class _Asking:
    """One call of `extract`: its workers take questions in order until none is left or all must stop."""

    caller: TypedCaller
    settings: Settings
    schema: Schema
    questions: list[_Question]
    stopped: HoptrailError | None = None
    silent: int = 0

    def __post_init__(self) -> None:
        self._left = iter(self.questions)

    async def work(self) -> None:
        while self.stopped is None and (question := next(self._left, None)) is not None:
            result = await self._ask(question.passage)
            if result is not None:
                question.answer.set_result(result)

    def end(self) -> None:
        """Answer what was not tried."""
        for question in self.questions:
            if self.stopped is not None and not question.answer.done():
                question.answer.set_result(ExtractionStop(self.stopped))

    async def _ask(self, passage: Passage) -> ExtractionOutput | ExtractionFailure | None:
        rendered = render_extraction(
            passage.title,
            passage.text,
            types=self.schema.types,
            labels=self.schema.labels,
            guided=self.caller.model.guided,
        )
        try:
            output = await self.caller.ask(rendered)
        except (BudgetExceededError, ConfigurationError, ModelFileError) as error:
            self.stopped = self.stopped or error
            return None
        except ModelAccessError as error:
            if not error.of_request:
                self.stopped = error
                return None
            return ExtractionFailure(reason=str(error))
        except ModelUnavailableError as error:
            self.silent += 1
            if self.silent >= max(_SILENT, 2 * self.settings.model_concurrency):
                self.stopped = error
            return ExtractionFailure(reason=str(error))
        except ModelError as error:
            return ExtractionFailure(reason=str(error))
        self.silent = 0
        return output


def extractor_name(settings: Settings) -> str:
    """The extractor's identity: model, prompt, and what it is told to look for."""
    guides = [
        f"{what}: {', '.join(names)}"
        for what, names in (("types", settings.entity_types), ("labels", settings.relation_labels))
        if names
    ]
    return "/".join(["llm", model_name(settings), EXTRACTION.version, *guides])
