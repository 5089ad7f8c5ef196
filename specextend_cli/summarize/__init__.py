"""From a document to its summary: plan, prompts, map and reduce, chunk summaries that survive an interruption."""
