"""The data-curation funnel: one step per file, stages in the catalogue."""
