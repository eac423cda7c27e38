"""For arrays of varying length: pad to one of a few sizes, so that few programs are compiled."""

from __future__ import annotations

from minijit.api.bucket_sizes import LengthReport, suggest_sizes
from minijit.api.bucketing import Bucketed, bucketed
from minijit.api.padding import pad_to_bucket

__all__ = ["Bucketed", "LengthReport", "bucketed", "pad_to_bucket", "suggest_sizes"]
