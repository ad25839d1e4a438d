"""Child processes that end with their starter, and handling of interrupts."""
