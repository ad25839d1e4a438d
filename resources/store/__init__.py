"""Files on disk: Parquet assets, stored engine results, locks, atomic writes."""
