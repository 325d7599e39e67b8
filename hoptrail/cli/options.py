"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["BaseUrl", "CorpusPath", "Json", "ModelName", "PlannerName", "ToolName"]

CorpusPath = Annotated[
    Path | None, typer.Option("--corpus", "-c", help="Directory of the corpus (HOPTRAIL_CORPUS; .hoptrail).")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="`embedded`, a pydantic-ai model string, or a name at --base-url (HOPTRAIL_MODEL)."
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="OpenAI-compatible endpoint (HOPTRAIL_BASE_URL); its key is read from HOPTRAIL_API_KEY."),
]
PlannerName = Annotated[str | None, typer.Option("--planner", "-p", help="Planner (HOPTRAIL_PLANNER; dag).")]
ToolName = Annotated[
    str | None, typer.Option("--tool", "-t", help="Retrieval tool for every step; by default the planner chooses.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
