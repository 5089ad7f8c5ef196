"""Well-formed draft trees, for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from specextend_cli.engine.tree import DraftTree


@st.composite
def trees(draw: st.DrawFn, vocabulary: int = 4) -> DraftTree:
    """Well-formed trees: parents first, siblings distinct, scores falling along every path."""
    tokens, parents, scores = [draw(st.integers(0, vocabulary - 1))], [0], [1.0]
    siblings: set[tuple[int, int]] = set()
    for _ in range(draw(st.integers(0, 23))):
        parent, token = draw(st.integers(0, len(tokens) - 1)), draw(st.integers(0, vocabulary - 1))
        if (parent, token) not in siblings:
            siblings.add((parent, token))
            tokens.append(token)
            parents.append(parent)
            scores.append(scores[parent] * draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])))
    return DraftTree(tokens, parents, scores)
