"""The child process that serves an embedded model; see `hoptrail.models.llama`.

It speaks the OpenAI API on a loopback port, writes one JSON line with its address when it is ready, and ends when its
standard input closes, so it never outlives its parent, however that ends.
"""

import argparse
import json
import os
import sys

__all__ = ["KEY_VARIABLE", "main"]

KEY_VARIABLE = "HOPTRAIL_CHILD_KEY"
"""Environment variable with the key that callers must show: the port is open to every user of the machine."""

BATCH_PER_THREAD = 16
MIN_BATCH = 32
MAX_BATCH = 512
"""Prompt tokens read at a time. Nothing stops within a batch, so this bounds how long a cancelled request goes on: 0.2 s at
160 tokens a second, 0.6 s at 55. Larger batches were not clearly faster on a busy machine of two cores."""

WARNINGS = 2
"""Level of the log. Requests are not logged: a long-lived server would fill the disk."""

CACHE_MIB = 512
"""Memory for prompts already read; the examples of the prompts are found there again."""

GUESS_FROM = 3
GUESS_TOKENS = 6
"""After `GUESS_FROM` tokens seen before, so many that followed them are guessed: 74 tokens in 4.1 s instead of 6.3 s."""


def main() -> None:
    """Serve until standard input closes."""
    options = argparse.ArgumentParser()
    options.add_argument("--model", required=True)
    options.add_argument("--context", type=int, required=True)
    options.add_argument("--parallel", type=int, required=True)
    options.add_argument("--threads", type=int, required=True)
    options.add_argument("--states", required=True)
    given = options.parse_args()

    # The server writes its log to standard output; only the address may go there.
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    import xllamacpp  # noqa: PLC0415 - loads native code, after the streams are in order

    params = xllamacpp.CommonParams()
    params.model.path = given.model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = given.context * given.parallel
    params.n_parallel = given.parallel
    params.kv_unified = False
    params.n_batch = params.n_ubatch = max(MIN_BATCH, min(MAX_BATCH, BATCH_PER_THREAD * given.threads))
    params.verbosity = WARNINGS
    params.cpuparams.n_threads = given.threads
    params.cpuparams_batch.n_threads = given.threads
    params.ui = False
    params.slot_save_path = f"{given.states}/"
    # Answers repeat the names and the form of what was read: guessing ahead from it saves a third of the time.
    params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_MAP_K]
    params.speculative.ngram_map_k.size_n = GUESS_FROM
    params.speculative.ngram_map_k.size_m = GUESS_TOKENS
    params.cache_ram_mib = CACHE_MIB
    params.api_keys = [os.environ[KEY_VARIABLE]]
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:  # its log, which the parent reads, says more than a traceback
        sys.exit(1)
    print(json.dumps({"address": server.listening_address}), file=report, flush=True)
    sys.stdin.buffer.read()
    # The server's own threads do not end by themselves; nothing is left to be saved.
    os._exit(0)


if __name__ == "__main__":
    main()
