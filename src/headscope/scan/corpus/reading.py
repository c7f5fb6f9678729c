"""Read a corpus once: tokenise its documents, pack them into rows, and write those, one file per shard.

Beside a GPU a shard is measured as soon as it is written, and the next documents are tokenised in a thread meanwhile.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from headscope.attention.progress import counting
from headscope.errors import InputError
from headscope.models.modes import device_of
from headscope.models.recording import OpenModel
from headscope.scan.corpus.documents import Corpus, FileHashes, Passage
from headscope.scan.corpus.packing import MIN_TOKENS, PackedRows, RowFormat, pack
from headscope.scan.options import ScanOptions
from headscope.scan.shards import MIN_DOCUMENTS, Packing, ScanFolder

AT_ONCE = 2**18
"""Characters that are given to the tokenizer at once, where nothing is said of where to stop reading."""
MOST_OVER = 2
"""Reading ends with the passage that reaches ``max_tokens``; one that makes it more than this many times is cut."""
AHEAD = 4
"""How many times as much is tokenised before it is asked for."""


@dataclass(frozen=True)
class CorpusSource:
    """A corpus, and how it becomes rows for a model."""

    model: OpenModel
    corpus: Corpus
    options: ScanOptions
    row_format: RowFormat

    def packed(self) -> Iterator[PackedRows]:
        """The rows of shard after shard."""
        n_rows = self.options.rows_in_shard(self.row_format.context, device_of(self.model.model))
        yield from pack(self._tokenised(), self.row_format, n_rows)

    def _tokenised(self) -> Iterator[tuple[int, list[int]]]:
        done, limit = 0, self.options.max_tokens
        for passages, found in self._encoded():
            for passage, ids in zip(passages, found, strict=True):
                if limit is not None and done + len(ids) > MOST_OVER * limit:
                    ids = ids[: max(limit - done, MIN_TOKENS)]
                done += len(ids)
                yield passage.document, ids
                if limit is not None and done >= limit:
                    return

    def _encoded(self) -> Iterator[tuple[list[Passage], list[list[int]]]]:
        """Passages and their tokens. A fast tokenizer works ahead: it needs no Python, so the model does not wait."""
        encode = self.model.processor.token_ids_of
        if self.options.max_tokens is not None or not getattr(self.model.processor.tokenizer, "is_fast", False):
            for passages in self._passages(0 if self.options.max_tokens is not None else AT_ONCE):
                yield passages, encode([passage.text for passage in passages])
            return
        pool = ThreadPoolExecutor(1, "tokenizer")
        waiting: deque[tuple[list[Passage], Future[list[list[int]]]]] = deque()
        try:
            for passages in self._passages(AT_ONCE):
                waiting.append((passages, pool.submit(encode, [passage.text for passage in passages])))
                if len(waiting) > AHEAD:
                    first, tokens = waiting.popleft()
                    yield first, tokens.result()
            for first, tokens in waiting:
                yield first, tokens.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _passages(self, characters: int) -> Iterator[list[Passage]]:
        """Some passages at a time, for a tokenizer that encodes several at once, on several cores."""
        held: list[Passage] = []
        size, advance = 0, counting("reading the corpus", self.corpus.n_bytes)
        for passage in self.corpus:
            advance(len(passage.text))
            held.append(passage)
            size += len(passage.text)
            if size >= characters:
                yield held
                held, size = [], 0
        if held:
            yield held


class CorpusReader:
    """Writes the rows of a corpus into a scan's folder. ``packing`` is there when all have been written."""

    def __init__(
        self, folder: ScanFolder, source: CorpusSource, hashes: FileHashes, packing: Packing | None = None
    ) -> None:
        self.folder, self.source, self._hashes, self.packing = folder, source, hashes, packing
        self._n_before = 0

    def read_all(self) -> None:
        """Read the whole corpus before anything is measured."""
        self.folder.remove_rows()
        for _ in self._shards():
            pass

    def missing(self) -> tuple[str, Iterator[int]]:
        """Return the bootstrap's unit and the shards without a tally; read the corpus on the way, if not done before.

        A shard that a stopped scan has measured, and whose rows are the same, is not measured again.
        """
        self._n_before = self.folder.n_tallies()
        if self.packing is not None:
            return self.packing.unit, iter(self.folder.missing_shards(self.packing))
        self.folder.work.mkdir(exist_ok=True)
        shards, first = self._shards(), []
        while self.source.corpus.n_documents < MIN_DOCUMENTS and (shard := next(shards, None)) is not None:
            first.append(shard)
        unit = "document" if self.source.corpus.n_documents >= MIN_DOCUMENTS else "piece"

        def missing() -> Iterator[int]:
            with closing(shards):
                for shard in chain(first, shards):
                    if not self.folder.tally_file(shard).exists():
                        yield shard

        return unit, missing()

    def tokens_missing(self) -> int | None:
        """About how many tokens there were to measure; None while the corpus is being read."""
        found = self.packing
        return None if found is None else round(found.tokens * (found.shards - self._n_before) / found.shards)

    def _shards(self) -> Generator[int, None, None]:
        shards = rows = pieces = tokens = 0
        digest, corpus = hashlib.sha256(), self.source.corpus
        for packed in self.source.packed():
            digest.update(self.folder.save_rows(shards, packed).encode())
            yield shards
            shards, rows = shards + 1, rows + len(packed.ids)
            pieces, tokens = pieces + len(packed.pieces), tokens + packed.n_tokens
        self._hashes.check_unchanged()
        if not shards:
            self.folder.reset()
            raise InputError([*corpus.problems, "the corpus is empty: it has no text of two tokens or more"][0])
        self.folder.remove_rows(after=shards)
        self.packing = Packing(shards, rows, corpus.n_documents, pieces, tokens, digest.hexdigest(), corpus.problems)
        self.folder.save_packing(self.packing)
