"""Who holds which tokens and heads: the same rules as libdit's UlyssesLayout, in plain Python.

The *sequence layout* is what a rank computes in: a part of the text tokens and a part of the image tokens,
all heads. The *head layout* is what it attends in: all tokens of the joint sequence, a part of the heads.
With more ranks than heads several ranks share a head, each with a part of the queries.
"""

from __future__ import annotations

from dataclasses import dataclass


def even_part(total: int, parts: int, index: int) -> range:
    """Part `index` of `parts` of `total` things, as even as possible."""
    return range(total * index // parts, total * (index + 1) // parts)


def part_size(total: int, parts: int, index: int) -> int:
    """Its length: in arithmetic that keeps a compiler's symbols, where a range makes numbers of them."""
    return total * (index + 1) // parts - total * index // parts


def part_place(total: int, parts: int, index: int) -> tuple[int, int]:
    """Its first thing, and its length: even_part in arithmetic."""
    return total * index // parts, part_size(total, parts, index)


def heads_part(heads: int, ranks: int, rank: int) -> range:
    """The heads that a rank attends for; with more ranks than heads neighbours share one."""
    own = even_part(heads, ranks, rank)
    return range(own.start, own.start + 1) if ranks > heads else own


@dataclass(frozen=True)
class Layout:
    """One attention call of all ranks together."""

    batch: int
    text: int  # tokens of a sample, on all ranks together
    image: int
    heads: int
    kv_heads: int
    head_dim: int
    ranks: int
    image_first: bool = False
    text_replicated: bool = False

    def __str__(self) -> str:
        order = "image-text" if self.image_first else "text-image"
        return (
            f"{self.batch}x{self.text}+{self.image}x{self.heads}/{self.kv_heads}x{self.head_dim}.{order}"
            + ("-all" if self.text_replicated else "")
        )

    @property
    def tokens(self) -> int:
        return self.text + self.image

    def rows(self, rank: int) -> int:
        """Tokens of a sample that a rank has in the sequence layout."""
        return sum([count for _, count in self.sequence_places(rank)])

    def sequence_places(self, rank: int) -> list[tuple[int, int]]:
        """Those, in the joint sequence, in the order of its rows: two times a first one and a number, also of
        numbers that are symbols."""
        text = (0, self.text) if self.text_replicated else part_place(self.text, self.ranks, rank)
        image = part_place(self.image, self.ranks, rank)
        if self.image_first:
            return [image, (text[0] + self.image, text[1])]
        return [text, (image[0] + self.text, image[1])]

    def sequence_tokens(self, rank: int) -> list[range]:
        return [range(start, start + count) for start, count in self.sequence_places(rank)]

    def heads_of(self, rank: int) -> range:
        return heads_part(self.heads, self.ranks, rank)

    def kv_heads_of(self, rank: int) -> range:
        own, sharing = self.heads_of(rank), self.heads // self.kv_heads
        return range(own.start // sharing, (own.stop - 1) // sharing + 1)

    def query_tokens(self, rank: int) -> range:
        """Tokens of the joint sequence that a rank attends for."""
        return even_part(self.tokens, *self._share(rank))

    def query_place(self, rank: int) -> tuple[int, int]:
        """The first of those, and how many they are, also of a number that is a symbol."""
        return part_place(self.tokens, *self._share(rank))

    def _share(self, rank: int) -> tuple[int, int]:
        """How many ranks attend for a head together, and which of them a rank is."""
        if self.ranks <= self.heads:
            return 1, 0
        head = self.heads_of(rank).start
        first, end = (-(-h * self.ranks // self.heads) for h in (head, head + 1))
        return end - first, rank - first

    def sequence_shape(self, rank: int) -> tuple[int, int, int, int]:
        return (self.batch, self.rows(rank), self.heads, self.head_dim)

    def query_shape(self, rank: int) -> tuple[int, int, int, int]:
        return (self.batch, self.query_place(rank)[1], len(self.heads_of(rank)), self.head_dim)

    def key_shape(self, rank: int) -> tuple[int, int, int, int]:
        return (self.batch, self.tokens, len(self.kv_heads_of(rank)), self.head_dim)
