"""From the text of a kernel to LLVM code in one pass, as the body of a Numba function.

Numba compiles any Python: it analyses bytecode, rebuilds SSA form, infers types until nothing
changes and lowers each statement, at about three milliseconds a line. Generated kernels need none
of that: their variables have one type each, known where they are first assigned. So the body of a
kernel is one Numba intrinsic. It walks the syntax tree once and asks Numba, for each operation,
what its type is and how to write it; what a kernel means is what Numba would make of its text.
"""

from __future__ import annotations

from minijit.backends.frontend.kernel import Toolkit, kernel_function
from minijit.backends.frontend.values import FrontendError
from minijit.backends.frontend.vectors import Vectors

__all__ = ["FrontendError", "Toolkit", "Vectors", "kernel_function"]
