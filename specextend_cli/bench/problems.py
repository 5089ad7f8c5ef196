"""Problems with long answers, for `--workload reasoning`: our own, and small enough to be checked by hand."""

from __future__ import annotations

from specextend_cli.bench.texts import Source

_PROBLEMS = (
    "A tank of 900 litres is filled by two pipes. The first alone would take 6 hours, the second alone 9 hours. A "
    "drain that alone would empty the full tank in 18 hours is left open by mistake. How long does filling take? Check "
    "the answer hour by hour.",
    "Find every pair of positive integers (a, b), a not larger than b, with a * b = 5 * (a + b). Prove that none is "
    "missing.",
    "A knight stands on a corner of an empty 5 by 5 board. Which squares can it reach in exactly four moves? Go "
    "through the board square by square.",
    "Write the numbers from 1 to 60 that have exactly four divisors, and for each of them its divisors.",
    "Three boxes are labelled apples, oranges, and mixed. Every label is wrong. You may take one fruit from one box. "
    "Which box do you choose, and how do you then label all three? Go through every case.",
    "A train leaves A at 8:00 at 72 km/h towards B, 390 km away. Another leaves B at 8:45 at 96 km/h towards A. Where "
    "and when do they meet? A bird flies between them at 120 km/h from 8:45 until they meet: how far does it fly?",
    "How many different ways are there to pay exactly 50 cents with coins of 1, 5, 10 and 25 cents? List them in a "
    "table.",
    "Sort the list 31, 4, 15, 92, 65, 35, 89, 79, 3, 23, 84, 62 by merge sort. Show the list after every merge, and "
    "count the comparisons.",
    "Let f(0) = 2, f(1) = 5, and f(n) = 3 f(n - 1) - 2 f(n - 2). Compute f(2) to f(12), guess a closed form, and prove "
    "it by induction.",
    "Four people must cross a bridge at night with one torch; at most two may cross at a time, at the slower one's "
    "pace. They need 1, 2, 7 and 10 minutes. Find the fastest plan and show why no plan is faster.",
)


def builtin() -> tuple[Source, ...]:
    """The problems, each a document."""
    return tuple(Source(f"problem-{number}", text) for number, text in enumerate(_PROBLEMS, 1))
