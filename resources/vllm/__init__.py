"""vLLM servers: command line, process, Dagster resource."""
