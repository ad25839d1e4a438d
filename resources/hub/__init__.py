"""The one seam to the model and data hub, and fingerprints of model folders."""
