"""A rule-based chat model, for methods where no model can run."""
