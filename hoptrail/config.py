"""Settings: one flat class, read from arguments first and `HOPTRAIL_*` environment variables second."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from hoptrail.errors import ConfigurationError

__all__ = ["ExtractorName", "OutputMode", "Settings", "TraceContent"]

OutputMode = Literal["auto", "tool", "native", "prompted"]
TraceContent = Literal["off", "hashed", "full"]
ExtractorName = Literal["offline", "llm", "none"]

EMBEDDED = "embedded"


class Settings(BaseSettings):
    """Everything that can be configured; every field is also an environment variable `HOPTRAIL_<FIELD>`.

    Times are seconds, money is US dollars, `None` means no limit.
    """

    model_config = SettingsConfigDict(env_prefix="HOPTRAIL_", frozen=True, extra="forbid")

    corpus: Path = Field(Path(".hoptrail"), description="Directory of the corpus.")
    store_url: SecretStr | None = Field(
        None,
        description="PostgreSQL database that holds the corpus's rows instead of a file, such as "
        "`postgresql://USER:PASSWORD@HOST/DATABASE`; needs the extra `postgres`.",
    )
    chroma_url: SecretStr | None = Field(
        None, description="Chroma server that holds the corpus's vector indexes, such as `http://HOST:8000`."
    )

    model: str = Field(
        EMBEDDED,
        description="`embedded`, an embedded model's name, a pydantic-ai model string such as `openai-chat:gpt-4o-mini`, "
        "or, with `base_url`, the endpoint's own name of a model.",
    )
    base_url: str | None = Field(None, description="Base URL of an OpenAI-compatible endpoint.")
    api_key: SecretStr | None = Field(None, description="Key of that endpoint.")
    output_mode: OutputMode = Field(
        "auto", description="How typed outputs are asked for; `auto` asks the model's profile."
    )
    guided: bool | None = Field(None, description="Show examples in prompts; by default only to small embedded models.")
    max_output_tokens: int = Field(1024, gt=0, description="Upper bound of one completion, in tokens.")
    embedding_model: str = Field(EMBEDDED, description="`embedded`, or a sentence-transformers folder or hub name.")
    model_threads: int = Field(0, ge=0, description="Threads of the embedded language model; 0 means all cores.")

    extractor: ExtractorName = Field(
        "offline", description="What finds entities and relations when indexing: `offline` (spaCy), `llm`, or `none`."
    )
    entity_types: tuple[str, ...] = Field(
        (), description="The only types of entities that extractor `llm` looks for; empty allows any."
    )
    relation_labels: tuple[str, ...] = Field(
        (), description="The only labels of relations that extractor `llm` looks for; empty allows any."
    )

    planner: str = Field("dag", description="Planner used when none is named.")
    tool: str = Field("consensus", description="Retrieval tool used when a step names none.")
    fallback_tools: tuple[str, ...] = Field(
        ("text", "lexical"), description="Tools tried in order when one fails or finds nothing."
    )
    passages_per_step: int = Field(
        3, gt=0, le=100, description="K_f: passages kept per retrieval (ConRAG, section 4.1)."
    )
    view_hits: int = Field(
        16, gt=0, le=1000, description="K_c: hits taken from each index by tools that have several views."
    )
    consensus_weights: dict[str, float] = Field(
        {"text": 1.0, "lexical": 0.8, "entity": 0.2, "relation": 0.2, "bridge": 1.0},
        description="Weight of each view of tool `consensus`; 0 leaves it out.",
    )
    consensus_bound: float = Field(
        0.95,
        ge=0,
        lt=1,
        description="How much the structural views can add to a score of `consensus` (ConRAG, lambda).",
    )
    max_steps: int = Field(12, gt=0, le=100, description="Steps a plan may have; a longer one is cut and reported.")
    max_question_chars: int = Field(8_000, gt=0, description="Longer questions are refused.")

    model_concurrency: int = Field(4, gt=0, description="Model calls in flight at once, over all runs.")
    requests_per_minute: int | None = Field(
        None, gt=0, description="Model calls that an indexing begins in a minute, at most; evenly spread."
    )
    tool_concurrency: int = Field(8, gt=0, description="Tool calls in flight at once, over all runs.")
    model_timeout_s: float = Field(180.0, gt=0, description="Time of one model call, retries included.")
    stream_idle_s: float = Field(60.0, gt=0, description="Longest silence within a stream.")
    tool_timeout_s: float = Field(60.0, gt=0, description="Time of one tool call.")
    step_deadline_s: float | None = Field(None, gt=0, description="Time of one step from the moment it is ready.")
    run_deadline_s: float | None = Field(600.0, gt=0, description="Time of a run; what is known by then is returned.")
    retry_attempts: int = Field(
        4, ge=1, le=10, description="Attempts per model call on connection errors, timeouts, 429 and 5xx."
    )

    max_calls: int | None = Field(None, ge=0, description="Model calls of a run, or of an indexing.")
    max_tokens: int | None = Field(None, ge=0, description="Input and output tokens of a run, or of an indexing.")
    max_cost: float | None = Field(None, ge=0, description="Money of a run, or of an indexing, in US dollars.")

    input_price: float | None = Field(
        None, ge=0, description="US dollars per million input tokens, where no price is known."
    )
    output_price: float | None = Field(None, ge=0, description="US dollars per million output tokens, likewise.")

    trace: Path | None = Field(None, description="File to which each run's events are appended as JSON lines.")
    trace_content: TraceContent = Field("full", description="Whether traces carry text: `off`, `hashed` or `full`.")

    @classmethod
    def load(cls, **overrides: object) -> Self:
        """Read the settings; `overrides` that are `None` count as absent.

        Raises:
            ConfigurationError: A value is malformed; the message names each field and what was wrong with it.
        """
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**given)  # type: ignore[arg-type]
        except SettingsError as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigurationError(
                f'Settings are wrong: {reason}; lists are written as JSON, such as ["text"].'
            ) from None
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ConfigurationError(f"Settings are wrong: {faults}.") from None
