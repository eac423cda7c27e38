"""Every error class; messages say what happened, where, and what to write instead."""

from __future__ import annotations

__all__ = [
    "CacheWarning",
    "ConcretizationTypeError",
    "DeclarationError",
    "ForkedCUDAError",
    "NonConcreteBooleanIndexError",
    "RecompileLimitError",
    "RecompileWarning",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
]


class ConcretizationTypeError(TypeError):
    """A traced value was used where Python needs a concrete one.

    Example::

        @minijit.jit
        def f(x):
            return float(x.sum())        # raises: the sum is not known while tracing

    Keep the value in the array world (``x.sum()``), or, when the value decides a shape or the
    number of steps, mark the argument that it comes from with ``static_argnames``.
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """Python asked a traced value whether it is true.

    ``if``, ``while``, ``and``, ``assert``, ``max``.

    Example::

        @minijit.jit
        def f(x):
            if x > 0:                    # raises
                return x
            return -x

    Write ``minijit.numpy.where(x > 0, x, -x)``; ``minijit.lax.cond(x > 0, f, g, x)`` to run only
    one side, ``minijit.lax.while_loop`` for a ``while``; or mark ``x`` static.
    """


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used as a Python index or count: ``range(n)``, ``items[n]``.

    Mark the argument with ``static_argnames``.
    """


class TracerArrayConversionError(ConcretizationTypeError):
    """A traced value was handed to code that needs a real array, for example ``np.asarray(x)``.

    Use the function's minijit, NumPy or CuPy form on the traced value itself.
    """


class NonConcreteBooleanIndexError(IndexError, ConcretizationTypeError):
    """An array was indexed by a traced mask, so the shape of the result depends on data.

    Write ``minijit.numpy.where(mask, x, fill)``, or reduce with a mask of weights.
    """


class UnexpectedTracerError(TypeError):
    """A traced value was used after the function that traced it had returned.

    A list, an attribute or a global kept it. Return the value from the jitted function instead.
    """


class DeclarationError(ValueError):
    """A primitive was declared with something that it cannot have or be.

    Example::

        @minijit.extend.elementwise
        def softsign(x):
            assert x == x                # refused when it is compiled: the code of one element
            return x / (1 + abs(x))      # cannot raise

    The message names the function and its line, and what is wrong there.
    """


class CacheWarning(UserWarning):
    """Compiled kernels cannot be kept on the disk, or what was kept cannot be used.

    Results are right all the same: what is not found is compiled. The message names the file or
    folder, and what to do.
    """


class RecompileWarning(UserWarning):
    """One function was compiled 8, 64, 512 ... times: see ``config.recompile_warning``.

    The message says what changed most often and what to do about it; ``f.explain()`` lists all.
    """


class RecompileLimitError(RuntimeError):
    """A call needed one compile more than ``config.max_compiles`` allows for a function."""


class ForkedCUDAError(RuntimeError):
    """A forked child of a process that had used the GPU asked for it.

    CUDA does not work there. Start processes by ``multiprocessing.get_context("spawn")``, fork
    before the GPU is first used, or compute on the CPU.
    """
