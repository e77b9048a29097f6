"""Datasets: one table of them, from official files, from Parquet files, or made up here."""
