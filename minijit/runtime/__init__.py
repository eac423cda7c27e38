"""From signatures to plans: the pipeline, what it makes, and the caches that keep it."""
