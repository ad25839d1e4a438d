"""What lies on disk: Parquet assets, stored engine results, locks, atomic files."""
