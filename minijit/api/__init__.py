"""What users call: jit, its stages, and the tools that look at programs without running them."""
