"""What extraction without a language model finds of what people say a passage tells: hoptrail's own beside textacy's.

    python dev.py bench extraction --data DIR [--set 2wiki] [--limit 300]

The gold is the set's evidence triples, (subject, relation, object), of its first questions. A pair of subject and object
counts where one supporting passage has both in its title or text, and is found where a triple of that passage joins them, in
either direction. Names are compared as words, in whatever case; one that is a part of the other counts.
textacy's subject-verb-object triples know no titles and resolve no pronouns; beside them stand the same with the title in
place of subjects that are pronouns.
The result goes to `benchmarks/results/extraction.json`.
"""

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from environment import in_own_environment

HERE = Path(__file__).parent
RESULT = HERE / "results" / "extraction.json"
Pair = tuple[str, str]


def rows(path: Path) -> Iterator[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def gold(folder: Path, name: str, limit: int) -> dict[str, set[Pair]]:
    """The pairs that each passage tells of, by its id."""
    from hoptrail.corpus.graph import normalised_name

    passages = {row["id"]: row for row in rows(folder / f"{name}.corpus.jsonl.gz")}
    found: dict[str, set[Pair]] = {}
    for number, question in enumerate(rows(folder / f"{name}.questions.jsonl.gz")):
        if number == limit:
            break
        for subject, _, tail in question["evidences"]:
            for key in question["supporting"]:
                text = normalised_name(f"{passages[key]['title']} | {passages[key]['text']}")
                pair = normalised_name(subject), normalised_name(tail)
                if all(holds(text, each) for each in pair):
                    found.setdefault(key, set()).add(pair)
                    break
    return found


def holds(text: str, name: str) -> bool:
    return bool(name) and f" {name} " in f" {''.join(c if c.isalnum() else ' ' for c in text)} ".replace("  ", " ")


def same(one: str, other: str) -> bool:
    return holds(one, other) or holds(other, one)


def of_hoptrail(passages: list[dict]) -> list[list[Pair]]:
    from hoptrail.corpus.extractors.offline import OfflineExtractor
    from hoptrail.corpus.types import Passage

    given = [Passage(id=p["id"], document=p["id"], ordinal=0, title=p["title"], text=p["text"]) for p in passages]
    return [[(each.head[0], each.tail[0]) for each in result.relations] for result in OfflineExtractor().extract(given)]


def of_textacy(passages: list[dict], *, titles: bool) -> list[list[Pair]]:
    from textacy.extract import subject_verb_object_triples

    from hoptrail.models.nlp import load_pipeline

    found = []
    for passage, doc in zip(passages, load_pipeline().pipe([p["text"] for p in passages]), strict=True):
        pairs = []
        for triple in subject_verb_object_triples(doc):
            subject = " ".join(token.text for token in triple.subject)
            if titles and all(token.pos_ == "PRON" for token in triple.subject):
                subject = passage["title"]
            pairs.append((subject, " ".join(token.text for token in triple.object)))
        found.append(pairs)
    return found


SYSTEMS: dict[str, Callable[[list[dict]], list[list[Pair]]]] = {
    "hoptrail offline": of_hoptrail,
    "textacy": lambda passages: of_textacy(passages, titles=False),
    "textacy, titles for pronouns": lambda passages: of_textacy(passages, titles=True),
}


def main() -> None:
    if in_own_environment("textacy"):
        return
    from hoptrail.corpus.graph import normalised_name
    from hoptrail.models.nlp import load_pipeline

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", default="2wiki")
    parser.add_argument("--limit", type=int, default=300)
    options = parser.parse_args()
    wanted = gold(options.data, options.set, options.limit)
    passages = [row for row in rows(options.data / f"{options.set}.corpus.jsonl.gz") if row["id"] in wanted]
    total = sum(map(len, wanted.values()))
    load_pipeline()
    results = {}
    for name, extract in SYSTEMS.items():
        started = time.perf_counter()
        triples = extract(passages)
        seconds = time.perf_counter() - started
        hit = 0
        for passage, pairs in zip(passages, triples, strict=True):
            ends = [(normalised_name(head), normalised_name(tail)) for head, tail in pairs]
            hit += sum(
                any((same(h, s) and same(t, o)) or (same(h, o) and same(t, s)) for h, t in ends)
                for s, o in wanted[passage["id"]]
            )
        count = sum(map(len, triples))
        results[name] = {"found": hit / total, "triples_per_passage": count / len(passages), "seconds": seconds}
        print(f"{name:30} {hit:4} of {total} pairs ({hit / total:.1%}), {count / len(passages):.1f} triples a passage")
    kept = {
        "set": options.set,
        "questions": options.limit,
        "passages": len(passages),
        "pairs": total,
        "systems": results,
    }
    RESULT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
