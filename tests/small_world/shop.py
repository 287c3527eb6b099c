"""The merchant: what has reached it, what it did, and what was said of it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Post(NamedTuple):
    """A request under way to the merchant: whose, which try, under which key."""

    token: int
    tried: int
    key: bytes


class Commit(NamedTuple):
    token: int
    key: bytes
    sku: str


class Shop(NamedTuple):
    """`unsent`: requests of which a caller was told that they did nothing."""

    commits: tuple[Commit, ...] = ()
    refused: tuple[bytes, ...] = ()
    wire: tuple[Post, ...] = ()
    unsent: tuple[int, ...] = ()

    def posted(self, token: int, tried: int, key: bytes) -> Shop:
        return self._replace(wire=tuple(sorted((*self.wire, Post(token, tried, key)))))

    def denied(self, token: int) -> Shop:
        return self._replace(unsent=tuple(sorted({*self.unsent, token})))

    def committed(self, key: bytes) -> int | None:
        """The number of the order made under a key."""
        return next((number for number, commit in enumerate(self.commits) if commit.key == key), None)

    def expects(self, key: bytes) -> bool:
        return any(post.key == key for post in self.wire)

    def takes(self, post: Post, sku: str, *, keyed: bool) -> Iterator[tuple[str, Shop, str]]:
        """What may become of a request: (told, the shop then, its reply). `keyed`: it honours Idempotency-Key.

        One that is lost on its way is one whose sender heard nothing in time, and which then finds a shop not ready.
        """
        left = self._replace(wire=tuple(other for other in self.wire if other != post))
        done = self.committed(post.key) if keyed else None
        if done is not None:
            yield "knows the key and says what it did", left, f"succeeded:{done}"
        elif keyed and post.key in self.refused:
            yield "knows the key and refuses again", left, "refused"
        else:
            commit = Commit(post.token, post.key, sku)
            yield "commits the order", left._replace(commits=(*self.commits, commit)), f"succeeded:{len(self.commits)}"
            refused = (*self.refused, post.key) if keyed else self.refused
            yield "refuses the order", left._replace(refused=refused), "refused"
            yield "is not ready", left, "not ready"


def result_of(number: int) -> bytes:
    """The reply for the order of that number, as raw JSON."""
    return b'"MO-%d"' % number
