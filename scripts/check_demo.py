"""Compare the last run in a trace with the data set's own answer and evidence.

    python scripts/check_demo.py TRACE QUESTIONS

Ends with 1 unless the answer holds the gold answer and every gold passage is cited.
"""

import json
import sys
from pathlib import Path

from hoptrail import answer_from_events, read_trace


def main() -> None:
    trace, questions = map(Path, sys.argv[1:])
    answer = answer_from_events(list(read_trace(trace).values())[-1])
    rows = map(json.loads, questions.read_text(encoding="utf-8").splitlines())
    gold = next(row for row in rows if row["question"] == answer.question)
    cited = {citation.document for citation in answer.citations}
    missing = [key for key in gold["supporting"] if key not in cited]
    right = any(text.casefold() in answer.text.casefold() for text in gold["answers"])
    print(f"answer: {answer.text!r}, gold: {gold['answers'][0]!r}: {'the same' if right else 'different'}")
    print(f"gold passages cited: {len(gold['supporting']) - len(missing)} of {len(gold['supporting'])}")
    print(
        f"plan: {'the question itself' if answer.plan.is_single else f'{len(answer.plan.steps)} steps, by the model'}"
    )
    sys.exit(0 if right and not missing and not answer.plan.is_single else 1)


if __name__ == "__main__":
    main()
