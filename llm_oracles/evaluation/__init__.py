"""Measuring how well implicit needs are met, and at what price in probes."""
