"""Tables, figures and pages that people look at."""
