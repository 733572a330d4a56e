"""Sequoia's dynamic programme: the tree with the most accepted tokens for a budget of nodes."""

from functools import cache

Path = tuple[int, ...]
"""A node of a shape: which child to take at each step from the root, the first being 0."""


@cache
def best_widths(acceptance: tuple[float, ...], budget: int, depth: int) -> dict[Path, int]:
    """Returns the number of children of each node in the best tree (2402.12374, section 3.1).

    The best tree below a node depends only on how many nodes are left, how deep they may go, and
    which of its parent's children comes next.

    acceptance: the probability that the n-th child of a node is the one accepted, for each n.
    budget: the most nodes, without the root.
    depth: the most levels below the root.
    """

    @cache
    def best(nodes: int, levels: int, rank: int) -> tuple[float, int]:
        """Returns the most tokens to gain from children `rank` on, and the size of its subtree."""
        if nodes == 0 or levels == 0 or rank == len(acceptance):
            return 0.0, 0
        result = (0.0, 0)
        for size in range(1, nodes + 1):
            below, _ = best(size - 1, levels - 1, 0)
            beside, _ = best(nodes - size, levels, rank + 1)
            value = acceptance[rank] * (1 + below) + beside
            if value > result[0] + 1e-15:
                result = value, size
        return result

    widths: dict[Path, int] = {}

    def add_children(path: Path, nodes: int, levels: int) -> None:
        rank = 0
        while size := best(nodes, levels, rank)[1]:
            add_children((*path, rank), size - 1, levels - 1)
            nodes, rank = nodes - size, rank + 1
        if rank:
            widths[path] = rank

    add_children((), budget, depth)
    return widths
