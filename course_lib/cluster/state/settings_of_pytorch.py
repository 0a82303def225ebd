"""What a function may leave in PyTorch: switches, modes that it has entered, hooks, functions of its own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from course_lib.cluster.state.monkeypatch_guard import in_words, patched, restore
from course_lib.cluster.state.registered_kernels import kernels
from course_lib.cluster.state.setting import Setting, refuse, silent, switched

__all__ = ["settings_of_pytorch"]


def settings_of_pytorch() -> tuple[Setting, ...]:
    return (*_switches(), *_switches_of_backends(), *_stacks(), *_others())


def _switches() -> tuple[Setting, ...]:
    import torch

    get_autocast, set_autocast = torch.is_autocast_enabled, torch.set_autocast_enabled
    get_precision = getattr(torch._C, "_get_float32_matmul_precision", torch.get_float32_matmul_precision)
    rows: tuple[tuple[str, Any, Any], ...] = (
        ("gradients switched", torch.is_grad_enabled, torch._C._set_grad_enabled),
        ("inference mode", torch.is_inference_mode_enabled, refuse),
        ("the default dtype at", torch.get_default_dtype, torch.set_default_dtype),
        ("the default device at", _default_device, torch.set_default_device),
        ("the number of threads at", torch.get_num_threads, torch.set_num_threads),
        ("anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        ("autocast", functools.partial(get_autocast, "cpu"), functools.partial(set_autocast, "cpu")),
        (
            "autocast of CUDA",
            functools.partial(get_autocast, "cuda"),
            functools.partial(set_autocast, "cuda"),
        ),
        (
            "the dtype of autocast at",
            functools.partial(torch.get_autocast_dtype, "cpu"),
            functools.partial(torch.set_autocast_dtype, "cpu"),
        ),
        ("the cache of autocast", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
        ("the precision of matrix products at", get_precision, torch.set_float32_matmul_precision),
        ("denormal numbers as 0", _flushes_denormals, torch.set_flush_denormal),
        ("the profiler", torch._C._autograd._profiler_enabled, refuse),
    )
    if torch.cuda.is_initialized():  # as on a rank that has joined with a GPU, which NCCL goes by
        rows += (("the current GPU at", torch.cuda.current_device, torch.cuda.set_device),)
    return tuple(Setting(what, get, restore, switched(what)) for what, get, restore in rows)


def _switches_of_backends() -> tuple[Setting, ...]:
    """Pairs of functions ``_get_x`` and ``_set_x`` of ``torch._C``, as ``torch.backends`` uses them; silent."""
    import torch

    names = (
        *(
            "cudnn_benchmark",
            "cudnn_enabled",
            "cudnn_deterministic",
            "mkldnn_enabled",
            "mkldnn_deterministic",
        ),
        *("nnpack_enabled", "flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled"),
        *("cublas_allow_fp16_reduced_precision_reduction", "cublas_allow_bf16_reduced_precision_reduction"),
        *("deterministic_fill_uninitialized_memory", "warnAlways", "check_sparse_tensor_invariants"),
    )
    found = []
    for name in names:
        get = getattr(torch._C, f"_get_{name}", None) or getattr(torch._C, f"_{name}", None)
        restore = getattr(torch._C, f"_set_{name}", None) or _of_attention(name)
        if get is not None and restore is not None and isinstance(_tried(get), (bool, int)):
            found.append(Setting(f"torch._C._get_{name}", get, restore, silent))
    return tuple(found)


def _of_attention(name: str) -> Callable[[Any], Any] | None:
    import torch

    return getattr(torch._C, f"_set_sdp_use_{name.removesuffix('_sdp_enabled')}", None)


def _tried(get: Callable[[], Any]) -> Any:
    try:
        return get()
    except Exception:  # it belongs to a device that is not here
        return None


def _flushes_denormals() -> bool:
    return sys.float_info.min / 2 == 0


def _default_device() -> Any:
    module = sys.modules.get("torch.utils._device")  # which PyTorch itself loads late
    return module and module.CURRENT_DEVICE


def _stacks() -> tuple[Setting, ...]:
    """What is entered and left; whoever enters by hand may forget to leave."""
    import torch
    from torch._C import _autograd
    from torch.autograd import forward_ad

    def unstack(depth: Callable[[], int], pop: Callable[[], Any]) -> Callable[[int], None]:
        def restore(wanted: int) -> None:
            while depth() > wanted:
                pop()

        return restore

    def hooks() -> Any:
        return _autograd._top_saved_tensors_default_hooks(True)

    def drop_hooks(_: Any) -> None:
        while hooks() is not None:
            _autograd._pop_saved_tensors_default_hooks()

    def transforms() -> bool:
        return torch._C._functorch.peek_interpreter_stack() is not None

    functions, dispatch = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
    pop_function, pop_dispatch = torch._C._pop_torch_function_stack, torch._C._pop_torch_dispatch_stack
    return (
        Setting("a function mode", functions, unstack(functions, pop_function), lambda _: "a function mode on"),
        Setting("a dispatch mode", dispatch, unstack(dispatch, pop_dispatch), lambda _: "a dispatch mode on"),
        Setting("hooks on saved tensors", hooks, drop_hooks, lambda _: "hooks on saved tensors"),
        Setting("a transform", transforms, refuse, lambda _: "a transform of torch.func on"),
        Setting("forward AD", lambda: forward_ad._current_level, refuse, lambda _: "forward AD on"),
    )


def _others() -> tuple[Setting, ...]:
    import torch

    def set_deterministic(value: tuple[bool, bool]) -> None:
        torch.use_deterministic_algorithms(value[0], warn_only=value[1])

    are_on, only_warn = (
        torch._C._get_deterministic_algorithms,
        torch._C._get_deterministic_algorithms_warn_only,
    )

    def deterministic() -> tuple[bool, bool]:
        return are_on(), only_warn()

    print_options = vars(torch._tensor_str.PRINT_OPTS)

    def restore_options(values: tuple[Any, ...]) -> None:
        print_options.update(zip(print_options, values, strict=True))

    return (
        Setting(
            "deterministic algorithms",
            deterministic,
            set_deterministic,
            lambda now: f"deterministic algorithms {'on' if now[0] else 'off'}",
        ),
        Setting("print options", lambda: tuple(print_options.values()), restore_options, silent),
        _functions_of_others(),
        Setting("kernels", kernels, refuse, lambda now: f"kernels of its own ({', '.join(sorted(now)[-3:])})"),
    )


def _functions_of_others() -> Setting:
    before = patched()

    def describe(now: dict[Any, Any]) -> str:
        return in_words({name: value for name, value in now.items() if before.get(name) != value})

    return Setting("functions of others", patched, restore, describe)
