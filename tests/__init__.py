"""Tests of balar."""
