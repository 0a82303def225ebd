"""What a call may change in its process and has to leave as it was.

In the order to read:

- ``builtin_names.py``: changed builtins (``print``, ``len``): a function may replace them for all of its process
- ``dict_versions.py``: versions of dicts: whether any of many namespaces has changed, in a tenth of a millisecond for
  30,000 names
- ``namespaces.py``: what each name stood for when this process was clean
- ``random_state.py``: the states of the global generators of random numbers
- ``registered_kernels.py``: kernels that a person's code has put in place of PyTorch's own, by operator and key
- ``monkeypatch_guard.py``: monkeypatch guard: functions that a call has replaced in PyTorch, numpy or Python, found by
  name and put back
- ``setting.py``: one thing that a function may change in its process
- ``code_of_functions.py``: changed code of functions: the name stands for the same function, whose code or defaults are
  others
- ``rounding_mode.py``: to which neighbour the processor rounds
- ``settings_of_python.py``: what a function may leave in Python and numpy
- ``settings_of_pytorch.py``: what a function may leave in PyTorch
- ``settings_of_system.py``: what a function may leave at the operating system and the processor
- ``process_state.py``: state of the process that a function may change and not restore
"""
