"""What of a passage a small model is shown: it reads some fifty tokens a second, and long passages lead it astray."""

from semantic_text_splitter import TextSplitter

from hoptrail.runtime.citations import content_words

__all__ = ["packed"]

PASSAGE_CHARS = 500
_SENTENCE_CHARS = 250


def packed(text: str, question: str) -> str:
    """`text` if it is short, else its first sentence and those that share most words with `question`, in their order.

    At most about 500 characters; ` … ` stands where something was left out.
    """
    if len(text) <= PASSAGE_CHARS:
        return text
    sentences = TextSplitter(_SENTENCE_CHARS).chunks(text)
    asked = set(content_words(question))
    shared = [len(asked & set(content_words(sentence))) for sentence in sentences]
    ranked = sorted(range(1, len(sentences)), key=lambda i: (-shared[i], i))
    kept, size = {0}, len(sentences[0])
    for i in ranked:
        if size + len(sentences[i]) <= PASSAGE_CHARS:
            kept.add(i)
            size += len(sentences[i])
    pieces: list[str] = []
    for i in sorted(kept):
        pieces += [*(["…"] if i and i - 1 not in kept else []), sentences[i]]
    return " ".join(pieces)
