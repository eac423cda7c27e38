"""The typed graph: abstract values, primitives, equations, the tracer that records them."""
