"""A vLLM server: its command line, its process, its Dagster resource."""
