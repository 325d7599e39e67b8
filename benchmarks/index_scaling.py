"""How indexing grows with a corpus, and what it costs beyond the two models that it waits for.

    python dev.py bench indexing --data DIR [--set hotpotqa] [--sizes 1000 2000 4000 8000]

For each size a process of its own indexes that many passages of the set (the offline extractor, the embedded encoder), and
another gives the same passages to the bare spaCy pipeline and the same texts to the bare encoder: nothing is stored and no
index is built. Both are timed with the models loaded. Overhead is what indexing takes beyond the sum of these two.
At the largest size the set's questions are asked of `consensus`, one after another.
The result goes to `benchmarks/results/index_scaling.json`.
"""

import argparse
import asyncio
import gzip
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
RESULT = HERE / "results" / "index_scaling.json"
DOUBLING, OVERHEAD = 2.15, 0.15
QUERIES, WARM_UP = 200, 20


def open_models():
    from hoptrail.config import Settings
    from hoptrail.models.embeddings import open_embedder
    from hoptrail.models.nlp import load_pipeline

    encoder = open_embedder(Settings())
    encoder.encode(["one text"])
    return encoder, load_pipeline()


def index(documents: str, corpus: str) -> dict:
    from hoptrail.corpus.extractors.offline import OfflineExtractor
    from hoptrail.corpus.indexing import index

    encoder, _ = open_models()
    phases: dict[str, float] = {}
    state = ["", time.perf_counter()]

    def tell(_done: int, _total: int, note: str) -> None:
        now = time.perf_counter()
        phases[state[0]] = phases.get(state[0], 0.0) + now - state[1]
        state[:] = note, now

    started = time.perf_counter()
    report = index([Path(documents)], Path(corpus), lambda: encoder, extractor=OfflineExtractor(), progress=tell)
    seconds = time.perf_counter() - started
    tell(0, 0, "")
    assert not report.failed
    # Linux gives kibibytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "phases": {k: v for k, v in phases.items() if k}, "peak_mib": peak, **sizes(corpus)}


def sizes(corpus: str) -> dict:
    files = sum(file.stat().st_size for file in Path(corpus).rglob("*") if file.is_file())
    return {"disk_mib": files / 2**20}


def bare(documents: str, corpus: str) -> dict:
    from hoptrail.corpus.schema import KINDS
    from hoptrail.corpus.store import Store

    encoder, pipeline = open_models()
    texts = [json.loads(line)["text"] for line in Path(documents).read_text(encoding="utf-8").splitlines()]
    started = time.perf_counter()
    for _ in pipeline.pipe(texts, batch_size=64):
        pass
    spacy = time.perf_counter() - started
    store = Store(Path(corpus), "default")
    spent = {}
    with store.reading() as rows:
        for kind in KINDS:
            embedded = list(rows.texts(kind, list(rows.embeddings.digests(kind))).values())
            started = time.perf_counter()
            encoder.encode(embedded)
            spent[kind] = {"texts": len(embedded), "seconds": time.perf_counter() - started}
    store.close()
    return {"spacy_s": spacy, "encoder_s": sum(each["seconds"] for each in spent.values()), "encoded": spent}


def queries(questions: str, corpus: str) -> dict:
    from hoptrail.config import Settings
    from hoptrail.corpus.corpus import Corpus
    from hoptrail.tools.consensus import ConsensusTool

    encoder, _ = open_models()
    opened = Corpus.open(Path(corpus), lambda: encoder)
    tool = ConsensusTool(opened, Settings())

    asked = json.loads(Path(questions).read_text(encoding="utf-8"))

    async def ask() -> list[float]:
        times = []
        for question in asked:
            started = time.perf_counter()
            await tool.retrieve(question, k=5)
            times.append(1e3 * (time.perf_counter() - started))
        return times[WARM_UP:]

    times = asyncio.run(ask())
    opened.close()
    cuts = statistics.quantiles(times, n=20)
    return {"queries": len(times), "p50_ms": statistics.median(times), "p95_ms": cuts[18]}


def child(job: str, *paths: Path) -> dict:
    command = [sys.executable, __file__, "--job", job, *map(str, paths)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(size: int, lines: list[str], folder: Path) -> dict:
    documents, corpus = folder / f"{size}.jsonl", folder / f"corpus-{size}"
    documents.write_text("".join(lines[:size]), encoding="utf-8")
    whole, parts = child("index", documents, corpus), child("bare", documents, corpus)
    models = parts["spacy_s"] + parts["encoder_s"]
    return {
        "passages": size,
        **whole,
        **parts,
        "per_second": size / whole["seconds"],
        "overhead": whole["seconds"] / models - 1,
    }


def show(rows: list[dict], asked: dict) -> None:
    print(
        f"{'passages':>9}{'s':>9}{'per s':>8}{'spaCy s':>9}{'encoder s':>11}{'overhead':>10}{'peak MiB':>10}{'disk MiB':>10}"
    )
    for row in rows:
        print(
            f"{row['passages']:9}{row['seconds']:9.1f}{row['per_second']:8.1f}{row['spacy_s']:9.1f}{row['encoder_s']:11.1f}"
            f"{row['overhead']:10.1%}{row['peak_mib']:10.0f}{row['disk_mib']:10.0f}"
        )
    for one, other in pairwise(rows):
        times = other["passages"] / one["passages"]
        ratio = other["seconds"] / one["seconds"]
        verdict = "" if times != 2 else f" (goal {DOUBLING}: {'met' if ratio <= DOUBLING else 'MISSED'})"
        print(f"{one['passages']} to {other['passages']} passages: {ratio:.2f} times as long{verdict}")
    worst = max(row["overhead"] for row in rows)
    print(f"overhead at most {worst:.1%} (goal {OVERHEAD:.0%}: {'met' if worst <= OVERHEAD else 'MISSED'})")
    print(f"consensus at {rows[-1]['passages']} passages: p50 {asked['p50_ms']:.1f} ms, p95 {asked['p95_ms']:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", default="hotpotqa")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 2_000, 4_000, 8_000])
    options = parser.parse_args()
    with gzip.open(options.data / f"{options.set}.corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = list(file)
    with gzip.open(options.data / f"{options.set}.questions.jsonl.gz", "rt", encoding="utf-8") as file:
        asked = [json.loads(line)["question"] for line in file][: QUERIES + WARM_UP]
    with tempfile.TemporaryDirectory(prefix="hoptrail-indexing-") as made:
        folder = Path(made)
        rows = []
        for size in sorted(options.sizes):
            rows.append(measure(min(size, len(lines)), lines, folder))
            print(f"… {size} passages: {rows[-1]['seconds']:.0f} s", flush=True)
        (folder / "questions.json").write_text(json.dumps(asked), encoding="utf-8")
        latency = child("queries", folder / "questions.json", folder / f"corpus-{rows[-1]['passages']}")
    show(rows, latency)
    before = json.loads(RESULT.read_text()) if RESULT.exists() else None
    if before and before["set"] == options.set:
        print(f"overhead in the last kept result: at most {max(row['overhead'] for row in before['sizes']):.1%}")
    RESULT.write_text(json.dumps({"set": options.set, "sizes": rows, "consensus": latency}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        print(json.dumps({"index": index, "bare": bare, "queries": queries}[sys.argv[2]](*sys.argv[3:])))
    else:
        main()
