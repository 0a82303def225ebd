"""What a call may change in its process and has to leave as it was.

In the order to read:

- ``builtin_names.py``: python's own names (``print``, ``len``), which a function may replace for all of its process
- ``dict_versions.py``: whether any of many namespaces has changed since the last look, in a tenth of a millisecond for
  30,000 names
- ``namespaces.py``: what each name stood for when this process was clean
- ``random_state.py``: the states of the global generators of random numbers
- ``registered_kernels.py``: kernels that a person's code has put in place of PyTorch's own, by operator and key
- ``monkeypatch_guard.py``: what a call has put in place of functions that others rely on
- ``setting.py``: one thing that a function may change in its process
- ``settings_of_pytorch.py``: what a function may leave in PyTorch
- ``code_of_functions.py``: what functions of modules are made of
- ``settings_of_python.py``: what a function may leave in Python and numpy
- ``rounding_mode.py``: to which neighbour the processor rounds
- ``settings_of_system.py``: what a function may leave at the operating system and the processor
- ``process_state.py``: what a function may change in its process and forget to put back
"""
