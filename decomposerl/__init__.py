"""The domain: pure functions on polars frames and small frozen types."""
