"""Where a model comes from: fingerprints of training data, and the record that a model keeps."""

from bitgrove.provenance.fingerprint import RowHasher, rows_of_queries, table_fingerprint
from bitgrove.provenance.record import TrainingRecord, record_of

__all__ = [
    "RowHasher",
    "TrainingRecord",
    "record_of",
    "rows_of_queries",
    "table_fingerprint",
]
