"""Programs to programs: each pass takes a jaxpr and returns one."""
