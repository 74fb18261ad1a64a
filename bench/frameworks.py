"""The peers that are called from Python: what each makes of a case of the suite.

A peer's `prepare` returns a call without arguments, and a function that gives the results of the last call as NumPy arrays.
"""

import functools
import os

import numpy as np
from suite.case import lowered


def numpy_of(tensor):
    """A torch tensor's or a JAX array's values; bf16 as f32."""
    if "bfloat16" in str(tensor.dtype):
        tensor = tensor.float() if hasattr(tensor, "float") else tensor.astype("float32")
    return np.asarray(tensor)


def as_tuple(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def torch_tensor(torch, bfloat16, array):
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if bfloat16 else torch.from_numpy(array)


def torch_inputs(torch, case):
    return [torch_tensor(torch, case.bfloat16, x) for x in case.inputs]


class Lathe:
    """Called as a user of torch would: torch tensors, out=. NumPy arrays where torch is missing."""

    name = "lathe"

    def __init__(self, torch):
        self.torch = torch

    def outputs(self, case):
        """The arrays that every contender with out= writes into, of the shapes that Lathe gives."""
        arrays = lowered(case)[1]
        return tuple(map(functools.partial(torch_tensor, self.torch, case.bfloat16), arrays) if self.torch else arrays)

    def prepare(self, case, outs):
        inputs = torch_inputs(self.torch, case) if self.torch else case.inputs
        call = functools.partial(case.function, *inputs, out=outs if len(outs) > 1 else outs[0])
        return call, lambda: [numpy_of(out) for out in outs]


class Torch:
    """Eager, the case's best call."""

    name = "torch"

    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch, self.version = torch, torch.__version__

    def prepare(self, case, outs):
        inputs = torch_inputs(self.torch, case)
        out = outs[0] if case.out else None
        latest = []

        def call():
            latest[:] = [case.torch(self.torch, inputs, out)]

        return call, lambda: [numpy_of(result) for result in as_tuple(latest[0])]


class Inductor(Torch):
    """torch.compile: the same call, its loops compiled by a C++ compiler."""

    name = "inductor"

    def __init__(self, threads):
        super().__init__(threads)
        import torch._dynamo
        import torch._inductor.config

        torch._dynamo.config.recompile_limit = 64
        if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
            torch._inductor.config.cpp.simdlen = 256

    def prepare(self, case, outs):
        self.torch._dynamo.reset()
        torch = self.torch
        inputs = torch_inputs(torch, case)
        out = outs[0] if case.out else None
        if out is None:
            compiled = torch.compile(lambda *x: case.torch(torch, x, None), dynamic=False, fullgraph=True)
            arguments = inputs
        else:
            compiled = torch.compile(lambda out, *x: case.torch(torch, x, out), dynamic=False, fullgraph=True)
            arguments = [out, *inputs]
        latest = []

        def call():
            latest[:] = [compiled(*arguments)]

        return call, lambda: [numpy_of(result) for result in as_tuple(latest[0])]


class Jax:
    """jax.jit on the CPU. Its out= is the result of the call before, donated: XLA writes the new result into it."""

    name = "jax"

    def __init__(self, threads):
        if threads == 1:
            flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
            os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # a call returns when it is done
        self.jax, self.version = jax, jax.__version__

    def array_of(self, case, x):
        if case.bfloat16:
            import ml_dtypes

            return self.jax.numpy.asarray(x.view(ml_dtypes.bfloat16))
        return self.jax.dlpack.from_dlpack(x)  # the same memory

    def prepare(self, case, outs):
        jax = self.jax
        # JAX's arrays have one layout: a transposed operand is transposed inside of what is compiled.
        turned = [x.ndim == 2 and not x.flags.c_contiguous for x in case.inputs]
        inputs = [self.array_of(case, x.T if turn else x) for x, turn in zip(case.inputs, turned, strict=True)]

        def function(x):
            return case.jax(jax, [array.T if turn else array for array, turn in zip(x, turned, strict=True)])

        compiled = jax.jit(lambda x, _: function(x), donate_argnums=1, keep_unused=True)
        latest = [jax.tree.map(lambda s: jax.numpy.zeros(s.shape, s.dtype), jax.eval_shape(function, inputs))]

        def call():
            latest[0] = jax.block_until_ready(compiled(inputs, latest[0]))

        return call, lambda: [numpy_of(result) for result in as_tuple(latest[0])]
