"""Reading what a model wrote: lines, verdicts, truths. One set of readers for every system."""
