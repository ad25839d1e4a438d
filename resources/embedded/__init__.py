"""Engines that need no key, no hub and no GPU."""
