"""How well each retrieval tool finds the gold passages of whole questions: one table for all sets, by hops and by type.

    python dev.py bench retrieval --data DIR [--work DIR] [--sets …] [--tools …] [--limit N]

Corpora are indexed with the embedded encoder and the offline extractor, once, and kept below `--work`.
The result goes to `benchmarks/results/retrieval.json` and, as tables, to `benchmarks/results/retrieval.md`.
"""

import argparse
import asyncio
import functools
import json
import sys
from pathlib import Path

from hoptrail.client import Hoptrail
from hoptrail.config import Settings
from hoptrail.evals.datasets import DataSet
from hoptrail.evals.metrics import mean, p_value
from hoptrail.evals.retrieval import evaluate_retrieval
from hoptrail.evals.workspace import indexed

HERE = Path(__file__).parent
RESULT = HERE / "results" / "retrieval.json"
SETS = ("musique", "2wiki", "hotpotqa")
BASELINES = ("mean", "combmnz", "rrf", "rra")
VIEWS = ("text", "lexical", "entity", "relation")
TOOLS = (
    *VIEWS,
    "consensus",
    *(f"consensus/{name}" for name in BASELINES),
    "consensus/no-specificity",
    "consensus/max-pooling",
    "consensus/paper",
    *(f"consensus/paper+{name}" for name in BASELINES),
    "consensus/paper+no-specificity",
    "consensus/paper+max-pooling",
)
MEASURES = ("recall@3", "recall@5", "all@5")
OURS = "consensus"


async def evaluate(data: DataSet, corpus: Path, settings: Settings, tools: list[str], limit: int | None) -> dict:
    found = {}
    async with Hoptrail.open(corpus, settings=settings) as hop:
        for name in tools:
            report = await evaluate_retrieval(data, data.sample(limit, 0), hop.tools.get(name))
            found[name] = report
            values = " / ".join(f"{report['metrics'][each]:.3f}" for each in MEASURES)
            print(f"{data.name:10} {name:32} {values}   {1e3 * report['seconds']:.0f} ms", flush=True)
    return found


def kept(report: dict) -> dict:
    groups = ("n", "metrics", "intervals", "by_hops", "by_type", "seconds")
    return {group: report[group] for group in groups}


def p_values(reports: dict[str, dict]) -> dict[str, float]:
    """Of the difference in recall@5 between our default and each other tool, paired by question."""
    ours = reports[OURS]["questions"]
    return {
        name: p_value([ours[q]["recall@5"] for q in ours], [report["questions"][q]["recall@5"] for q in ours])
        for name, report in reports.items()
        if name != OURS
    }


def averages(sets: dict[str, dict[str, dict]]) -> dict[str, dict[str, float]]:
    tools = next(iter(sets.values()))
    return {
        tool: {each: mean([reports[tool]["metrics"][each] for reports in sets.values()]) for each in MEASURES}
        for tool in tools
    }


def tables(sets: dict[str, dict[str, dict]]) -> str:
    lines = ["# Retrieval of whole questions", "", f"{' / '.join(MEASURES)}; {reading(sets)}", ""]
    lines += header("tool", [*sets, "average"])
    for tool, average in averages(sets).items():
        cells = [*(reports[tool]["metrics"] for reports in sets.values()), average]
        lines.append(f"| {tool} | " + " | ".join(map(cell, cells)) + " |")
    for group, what in (("by_hops", "hops"), ("by_type", "type")):
        for name, reports in sets.items():
            values = reports[OURS][group]
            if len(values) < 2:
                continue
            lines += ["", f"## {name}, by {what}", ""]
            lines += header("tool", [f"{value} ({values[value]['n']:.0f})" for value in values])
            for tool, report in reports.items():
                lines.append(f"| {tool} | " + " | ".join(cell(report[group][value]) for value in values) + " |")
    return "\n".join(lines) + "\n"


def reading(sets: dict[str, dict[str, dict]]) -> str:
    counts = ", ".join(f"{name} {reports[OURS]['n']}" for name, reports in sets.items())
    return f"questions: {counts}."


def header(first: str, names: list[str]) -> list[str]:
    return [f"| {first} | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]


def cell(values: dict[str, float]) -> str:
    return " / ".join(f"{values[each]:.3f}" for each in MEASURES)


def verdict(sets: dict[str, dict[str, dict]]) -> str:
    found = averages(sets)
    others = {
        tool: v["recall@5"] for tool, v in found.items() if tool != OURS and "no-" not in tool and "max-" not in tool
    }
    best = max(others, key=others.__getitem__)
    ours = found[OURS]["recall@5"]
    return (
        f"{OURS} {ours:.3f}, next {best} {others[best]:.3f} (average recall@5): "
        f"{'above all' if ours > others[best] else 'NOT above all'}"
    )


def compare(sets: dict[str, dict[str, dict]], before: dict) -> None:
    for name, reports in sets.items():
        for tool, report in reports.items():
            old = before.get("sets", {}).get(name, {}).get(tool)
            if old and abs(change := report["metrics"]["recall@5"] - old["metrics"]["recall@5"]) > 0.002:
                print(f"{name}, {tool}: recall@5 changed by {change:+.3f} since the last kept result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("results"))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--tools", nargs="+", default=list(TOOLS))
    parser.add_argument("--limit", type=int, default=None)
    options = parser.parse_args()
    tools = list(dict.fromkeys([*options.tools, OURS]))
    settings = Settings()
    sets = {}
    for name in options.sets:
        data = DataSet.load(options.data, name)
        corpus = indexed(data, options.work, settings)
        run = functools.partial(evaluate, data, corpus, settings, tools, options.limit)
        sets[name] = asyncio.run(run())
    print(verdict(sets))
    whole = set(options.sets) == set(SETS) and set(tools) == set(TOOLS) and options.limit is None
    if not whole:
        print("only a part was measured: the kept result stays as it is", file=sys.stderr)
        return
    if RESULT.exists():
        compare(sets, json.loads(RESULT.read_text()))
    report = {
        "averages": averages(sets),
        "p_values": {name: p_values(reports) for name, reports in sets.items()},
        "sets": {name: {tool: kept(each) for tool, each in reports.items()} for name, reports in sets.items()},
    }
    RESULT.write_text(json.dumps(report, indent=1) + "\n")
    RESULT.with_suffix(".md").write_text(tables(sets), encoding="utf-8")


if __name__ == "__main__":
    main()
