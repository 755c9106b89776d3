"""Benchmarks (`python -m benchmarks NAME`): both sides in one run, never part of the tests."""
