"""MiniCheck: a verifier in process and one behind an endpoint, over the same chunks."""
