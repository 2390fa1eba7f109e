"""The dialogue: a sans-IO state machine, and everything it can need or be told."""
