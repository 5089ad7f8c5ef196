"""reStructuredText and AsciiDoc are read as the Markdown that says the same."""

from __future__ import annotations

import pytest

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes

RESTRUCTURED = """\
.. A draft, not yet
   agreed on.

==========
The Bridge
==========

:Author: Ann Berg

Costs
-----

The :term:`bridge` costs |sum| (see :pep:`8`, `the minutes
<https://example.org>`__, Costs_ and ``sum_``) [1]_. Its form::

    def arch(x_):
        return `x`

.. warning:: Keep away
   from the water.

.. code-block:: python
   :linenos:

   import arch

.. figure:: arch.png
   :width: 30

   The old arch.

.. image:: map.png

.. |sum| replace:: four million
.. _Costs: https://example.org/costs
.. [1] In 2025.
"""
RESTRUCTURED_READ = """\
# The Bridge

Author: Ann Berg

## Costs

The bridge costs four million (see PEP 8, the minutes, Costs and `sum_`) [1]. Its form:

```
def arch(x_):
    return `x`
```

Warning: Keep away
from the water.

```
import arch
```

The old arch.

[1] In 2025."""
ASCIIDOC = """\
= The Bridge
:toc:

// A draft
[[costs]]
== Costs

The link:https://example.org[bridge] costs more{nbsp}(see <<costs,above>>).footnote:[In
2025.]

[cols="1,1"]
|===
|Part |Cost
|Arch
|4.0
|===

. first
.. inner
* other

Arch:: a round part

----
= no title
----

////
Not yet agreed on.
////

image::map.png[Map]
"""
ASCIIDOC_READ = """\
# The Bridge

## Costs

The bridge costs more (see above). (In 2025.)

Part | Cost
Arch
4.0

1. first
  1. inner
- other

Arch: a round part

```
= no title
```"""


def read(text: str, name: str) -> Document:
    return read_bytes(name, text.encode())


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.rst", RESTRUCTURED, RESTRUCTURED_READ),
        ("a.adoc", ASCIIDOC, ASCIIDOC_READ),
        ("a.rst", "No markup at all: a_b_c, __init__, 3 * 4.\n", "No markup at all: a_b_c, __init__, 3 * 4."),
        ("a.adoc", "No markup at all: std::vector, C++, [x].\n", "No markup at all: std::vector, C++, [x]."),
    ],
)
def test_what_is_read(name: str, text: str, wanted: str) -> None:
    assert read(text, name).text == wanted


def test_headings_begin_sections() -> None:
    for name, text in (
        ("a.rst", "Bridge\n======\n\nTwo.\n\nArch\n----\n\nThree.\n"),
        ("a.adoc", "= Bridge\n\nTwo.\n\n== Arch\n\nThree.\n"),
    ):
        document = read(text, name)
        assert [page.title for page in document.pages] == ["Bridge", "Arch"]
        assert (document.kind, document.unit) == ("markdown", "section")


@pytest.mark.parametrize(
    ("name", "text", "hidden"),
    [
        ("a.rst", RESTRUCTURED, ["A draft, not yet agreed on.", "image:: map.png"]),
        ("a.adoc", ASCIIDOC, ["// A draft", "Not yet agreed on.", "image::map.png[Map]"]),
    ],
)
def test_what_has_no_text_is_left_out_and_counted(name: str, text: str, hidden: list[str]) -> None:
    edits = [edit.before for edit in read(text, name).extraction.edits if edit.kind == "hidden text"]
    assert edits == [f"<!-- {part} -->" for part in hidden]


@pytest.mark.parametrize("suffix", ["rst", "adoc"])
@pytest.mark.parametrize(
    "part",
    [
        ".. a::\n   ",
        "a_",
        ":a:",
        "`",
        "``a",
        "|a",
        "[a",
        "link:[",
        "a.",
        "<<a",
        " |",
        "a::",
        "- ",
        "=\n",
        "<a",
        "a\n.. b\n",
    ],
)
def test_time_is_linear(suffix: str, part: str) -> None:
    assert read(f"Start {part * 40_000} end.", f"a.{suffix}").text


def test_rows_of_typed_tables_stay_rows() -> None:
    story = "The council met in the old mill, and it heard all who had seen the ferry before the flood of the spring."
    assert len(story) > 80
    text = f'Station;Level;Remark\nMill;3,20;"by hand,\ndaily; by two"\nFerry;;"{story}"\n'
    wanted = "| Station | Level | Remark |\n| Mill | 3,20 | by hand, daily; by two |\n| Ferry | | |"
    assert read(text, "a.csv").text == f"{wanted}\n\n{story}"
    assert read(text.replace(";", "\t"), "a.tsv").text == f"{wanted.replace('; by', ' by')}\n\n{story}"
    assert read("No table at all.\n", "a.csv").text == "No table at all."


def test_a_table_from_a_pipe_keeps_its_rows():
    table = "name,city,amount\nAnna,Berlin,12\nBob,Paris,40\n"
    assert read(table, "stdin").text == "| name | city | amount |\n| Anna | Berlin | 12 |\n| Bob | Paris | 40 |"
    prose = "One, two, three\nfour, five, six and then\nmore words, without a second comma in this line.\n"
    assert "|" not in read(prose, "stdin").text
