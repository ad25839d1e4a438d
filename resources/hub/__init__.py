"""The Hugging Face hub: downloads at a pinned revision, and fingerprints of model folders."""
