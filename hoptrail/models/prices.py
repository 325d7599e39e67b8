"""What a model's tokens cost."""

from dataclasses import dataclass
from typing import Self

from genai_prices import Usage as TokenUsage
from genai_prices import calc_price

from hoptrail.config import Settings
from hoptrail.errors import ConfigurationError
from hoptrail.models.base import LanguageModel

__all__ = ["Prices"]

_MILLION = 1_000_000


@dataclass(frozen=True)
class Prices:
    """US dollars per token of input and of output."""

    input: float = 0.0
    output: float = 0.0

    @classmethod
    def of(cls, model: LanguageModel, settings: Settings) -> Self:
        """Prices from the settings, else from the price list that pydantic-ai ships, else 0.

        Raises:
            ConfigurationError: A cap on money is set but no price is known, so the cap could not hold.
        """
        known = cls.known(model, settings)
        if known is None and settings.max_cost is not None:
            raise ConfigurationError(
                f"HOPTRAIL_MAX_COST is set, but no price of model {model.name!r} is known: "
                "set HOPTRAIL_INPUT_PRICE and HOPTRAIL_OUTPUT_PRICE (US dollars per million tokens)."
            )
        return known or cls()

    @classmethod
    def known(cls, model: LanguageModel, settings: Settings) -> Self | None:
        """Prices as `of` finds them, or `None` where there are none."""
        if settings.input_price is not None or settings.output_price is not None:
            return cls((settings.input_price or 0.0) / _MILLION, (settings.output_price or 0.0) / _MILLION)
        if model.local:
            return cls()
        listed = _listed(model)
        return cls(*listed) if listed else None

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """US dollars of one call."""
        return input_tokens * self.input + output_tokens * self.output


def _listed(model: LanguageModel) -> tuple[float, float] | None:
    def price(usage: TokenUsage) -> float:
        found = calc_price(usage, model.model.model_name, provider_id=model.model.system)
        return float(found.total_price) / 1000

    try:
        return price(TokenUsage(input_tokens=1000)), price(TokenUsage(output_tokens=1000))
    except (LookupError, ValueError):
        return None
