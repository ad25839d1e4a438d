"""A chat model made of rules, for methods where no model can run."""
