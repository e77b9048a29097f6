"""Rows that come in batches and are never in memory together."""
