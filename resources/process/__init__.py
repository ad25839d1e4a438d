"""Processes of our own: interrupts, children that end with their starter."""
