"""The few hot loops, each a plain function with a brute-force oracle in the tests."""
