"""The client of an OpenAI-compatible chat endpoint; ``resources.chat.client`` is the way in."""
