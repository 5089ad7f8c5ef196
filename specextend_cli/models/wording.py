"""What a target is asked where its preset says nothing else: plain words for any instruction-tuned model."""

from typing import Literal, TypeAlias

Style: TypeAlias = Literal["paragraph", "bullets", "abstract", "tldr", "outline"]

SYSTEM = "You write faithful summaries. You state only what the text says, with its names, numbers and dates."

SINGLE = """\
Summarize the document below in at most {words} words, in {language}.

Title: {title}

<document>
{document}
</document>

Write only the summary, at most {words} words. {style} {focus}"""

MAP = """\
Below is part {part} of {parts} (pages {pages}) of the document "{title}".

<document>
{document}
</document>

Take notes for a summary, in {language}, at most {words} words: claims, results, names, numbers, dates, in the order \
of the text. {focus} Write only the notes."""

REDUCE = """\
Below are notes on consecutive parts of the document "{title}".

<notes>
{document}
</notes>

Write one coherent summary of the whole document from these notes, in {language}, at most {words} words. Leave out \
repetitions. {style} {focus} Write only the summary."""

STYLES: dict[Style, str] = {
    "paragraph": "",  # what the prompts ask for by themselves
    "bullets": 'Write it as a list of the main points: one line for each, beginning with "- ".',
    "abstract": "Write it as the abstract of a paper: what was asked, what was done, what was found, what follows.",
    "tldr": "Write one or two sentences: only what matters most.",
    "outline": "Write it as an outline: the topics in the order of the text, numbered, their points indented beneath.",
}
"""What `{style}` stands for."""

FOCUS = "Attend above all to what the text says about this question: {question}"
"""What `{focus}` stands for where there is a question."""
