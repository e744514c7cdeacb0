"""The paper's tables filled again: which runs that takes, what it costs, and what came of it."""
