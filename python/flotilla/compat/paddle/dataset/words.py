"""Words and their numbers."""


def _bytes(word):
    return word if isinstance(word, bytes) else word.encode()


def numbered(counts, more_than):
    """{word: number} of words that occur more often than so, the most frequent
    first; behind them <unk>, for all others."""
    kept = sorted((-n, _bytes(w), w) for w, n in counts.items()
                  if n > more_than)
    found = {w: i for i, (_, _, w) in enumerate(kept)}
    found["<unk>"] = len(found)
    return found
