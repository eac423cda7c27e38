"""The primitives, each declared once, by family; importing this package declares them all."""
