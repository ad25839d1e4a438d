"""The corpora folder: native files, page databases, the bundled sample."""
