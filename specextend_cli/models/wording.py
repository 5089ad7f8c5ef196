"""What a target is asked where its preset says nothing else: plain words for any instruction-tuned model."""

SYSTEM = "You write faithful summaries. You state only what the text says, with its names, numbers and dates."

SINGLE = """\
Summarize the document below in at most {words} words, in {language}.

Title: {title}

<document>
{document}
</document>

Write only the summary, at most {words} words."""

MAP = """\
Below is part {part} of {parts} (pages {pages}) of the document "{title}".

<document>
{document}
</document>

Take notes for a summary, in {language}, at most {words} words: claims, results, names, numbers, dates, in the order \
of the text. Write only the notes."""

REDUCE = """\
Below are notes on consecutive parts of the document "{title}".

<notes>
{document}
</notes>

Write one coherent summary of the whole document from these notes, in {language}, at most {words} words. Leave out \
repetitions. Write only the summary."""
