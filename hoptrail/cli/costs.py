"""What `hoptrail index` says of costs, before and after."""

from hoptrail.cli.console import errors, output
from hoptrail.config import Settings
from hoptrail.corpus.estimating import IndexEstimate
from hoptrail.corpus.extraction import Extractor, PaidExtractor
from hoptrail.corpus.indexing import IndexReport
from hoptrail.errors import BudgetExceededError

__all__ = ["show_estimate", "show_spending"]


def show_estimate(found: IndexEstimate, settings: Settings) -> None:
    """Print what an indexing would do and cost."""
    for failure in found.failed:
        errors.print(str(failure), markup=False, style="yellow", soft_wrap=True)
    output.print(
        f"{settings.corpus}: {found.added} documents would be added, {found.updated} updated, {found.unchanged} are "
        f"unchanged, {len(found.failed)} unreadable; {found.passages} passages to read with extractor {settings.extractor}",
        markup=False,
    )
    cost = found.cost
    money = "no price is known (HOPTRAIL_INPUT_PRICE, HOPTRAIL_OUTPUT_PRICE)"
    if cost.cost is not None and cost.most_cost is not None:
        money = f"about ${cost.cost:,.4f}, at most ${cost.most_cost:,.4f}"
    output.print(
        f"{cost.calls:,} model calls, about {cost.input_tokens:,} + {cost.output_tokens:,} tokens, at most "
        f"{cost.most_tokens:,}; {money}",
        markup=False,
    )
    output.print("Nothing was written.")


def show_spending(extractor: Extractor | None, report: IndexReport) -> None:
    """Print what an indexing has spent, and what a cap has left undone."""
    if isinstance(extractor, PaidExtractor) and extractor.budget.calls:
        spent = extractor.budget
        output.print(
            f"{report.extracted} passages read by {extractor.name}: {spent.calls:,} model calls, {spent.tokens:,} tokens, "
            f"${spent.cost:,.4f}",
            markup=False,
        )
    if isinstance(report.stopped, BudgetExceededError):
        errors.print(
            f"The cap on {report.stopped.unit} is reached: {report.untried} passages are left to the next `hoptrail index`.",
            style="yellow",
            soft_wrap=True,
        )
