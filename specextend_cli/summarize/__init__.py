"""From a document to its summary: plan, prompts, map and reduce, notes that survive an interruption."""
