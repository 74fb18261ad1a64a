"""What a traced function's meaning hangs on besides its arguments, read from its bytecode: cells, globals, and what
attributes and constant subscripts that start at them, or at a static argument (`self`), find.

`collect` runs once for each reading of a function. It reads no property and calls nothing of the caller's: each step is
one entry of a dict, list, class or slot, so that a call's check is a comparison an entry.
"""

import dis
import functools
import sys
import types

# Kinds of guards (bindings/python/variant.h has the same order): what holds it, under which key, and what it held.
CELL, ENTRY, ELEMENT, CLASS, SLOT, LENGTH, FUNCTION = range(7)
MISSING = object()

_SKIPPED = {"CACHE", "RESUME", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "NOP", "COPY_FREE_VARS", "NOT_TAKEN"}
_FAST = {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"}
_PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
# Methods of lists and dicts that read what these hold.
_READERS = {"get", "items", "values", "keys", "copy", "index", "count"}
# As many entries of a container that is used as a whole are guarded, and so deep.
_MOST_ENTRIES, _MOST_DEPTH = 64, 4


def _instructions(code):
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name in _PAIRS:
            yield from zip(_PAIRS[name], value, strict=True)
        elif name == "BINARY_OP" and instruction.argrepr == "[]":
            yield "BINARY_SUBSCR", None
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL"):
            yield "LOAD_CONST", value
        elif name in _FAST:
            yield "LOAD_FAST", value
        elif name not in _SKIPPED:
            yield name, value


_STEP_OF = {"LOAD_ATTR": "attribute", "LOAD_METHOD": "attribute"}
_ROOT_OF = {"LOAD_GLOBAL": "global", "LOAD_NAME": "global", "LOAD_FAST": "local"}
_ROOT_OF |= {"LOAD_DEREF": "cell", "LOAD_CLASSDEREF": "cell", "LOAD_FROM_DICT_OR_DEREF": "cell"}


@functools.lru_cache(4096)
def _chains(code):
    """((kind of root, name, steps), ..) that `code` and the code within it read, each once."""
    instructions = list(_instructions(code))
    stores = [value for name, value in instructions if name in ("STORE_FAST", "DELETE_FAST")]
    found, aliases = {}, {}
    at = 0
    while at < len(instructions):
        name, value = instructions[at]
        at += 1
        if name not in _ROOT_OF:
            continue
        root, steps = (_ROOT_OF[name], value), ()
        if value in aliases and name == "LOAD_FAST":
            *root, steps = aliases[value]
        elif name == "LOAD_FAST" and value in stores:
            continue
        while at < len(instructions):
            name, value = instructions[at]
            if name in _STEP_OF:
                steps += ((_STEP_OF[name], value),)
                at += 1
            elif name == "LOAD_CONST" and at + 1 < len(instructions) and instructions[at + 1][0] == "BINARY_SUBSCR":
                steps += (("item", value),)
                at += 2
            else:
                break
        chain = (*root, steps)
        found[_hashable(chain)] = chain
        # A local that is stored once stands for what was read, and a loop's variable for each element of it.
        rest = [name for name, _ in instructions[at : at + 3]]
        if rest[:1] == ["STORE_FAST"] and stores.count(instructions[at][1]) == 1:
            aliases[instructions[at][1]] = chain
        elif rest == ["GET_ITER", "FOR_ITER", "STORE_FAST"] and stores.count(instructions[at + 2][1]) == 1:
            aliases[instructions[at + 2][1]] = (*root, steps + (("each", None),))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            for kind, name, steps in _chains(inner):
                if kind == "global" or (kind == "cell" and name not in inner.co_cellvars):
                    if kind == "cell" and name not in code.co_freevars:
                        kind = "local" if name in code.co_varnames and name not in stores else None
                    if kind:
                        found[_hashable((kind, name, steps))] = (kind, name, steps)
    return tuple(found.values())


def _hashable(chain):
    kind, name, steps = chain
    return kind, name, tuple((step, type(key), repr(key)) for step, key in steps)


@functools.lru_cache(4096)
def _is_library_name(name):
    if not name:
        return False
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == __package__:
        return top != "__main__"
    file = getattr(sys.modules.get(name), "__file__", None)
    return isinstance(file, str) and ("/site-packages/" in file or "/dist-packages/" in file)


def _is_library(thing):
    """Does the module, function or class belong to an installed package, which stays as it is?"""
    name = getattr(thing, "__name__" if isinstance(thing, types.ModuleType) else "__module__", None)
    return isinstance(name, str) and _is_library_name(name)


class _Bound:
    """A function whose first argument is known."""

    def __init__(self, function, instance):
        self.function, self.instance = function, instance


class _Collector:
    def __init__(self, root):
        self.guards, self.known, self.followed = [], set(), set()
        self.package = (getattr(root, "__module__", None) or "").partition(".")[0]

    def guard(self, kind, holder, key, held, firm=False):
        # By identity: what guards keep alive has an address of its own.
        name = key if isinstance(key, (str, int)) else repr(key)
        if (kind, id(holder), name) not in self.known:
            self.known.add((kind, id(holder), name))
            self.guards.append((kind, holder, key, held, firm))

    def function(self, function, arguments, root=False):
        """Guards what `function` reads; `arguments` are those of its parameters that are known."""
        function = getattr(function, "__wrapped__", function) if type(function).__name__ == "JitFunction" else function
        if isinstance(function, types.MethodType):
            return self.bound(function.__func__, function.__self__)
        if not isinstance(function, types.FunctionType):
            return self.reached(function, 0) if root else None
        if not root and _is_library(function) and function.__module__.partition(".")[0] != self.package:
            return None
        key = (id(function), *((name, id(value)) for name, value in sorted(arguments.items())))
        if key in self.followed:
            return None
        self.followed.add(key)
        code = function.__code__
        self.guard(FUNCTION, function, None, (code, function.__defaults__, function.__kwdefaults__), firm=True)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        names = function.__globals__
        for cell in cells.values():
            self.guard(CELL, cell, None, _content(cell), firm=True)
        for kind, name, steps in _chains(code):
            if kind == "cell" and name in cells:
                value = _content(cells[name])
            elif kind == "global":
                value = names.get(name, MISSING)
                self.guard(ENTRY, names, name, value, firm=True)
            else:  # a local, or a cell that is this function's own
                value = arguments.get(name, MISSING)
            if value is not MISSING:
                self.walk(value, steps)
        return None

    def bound(self, function, instance):
        if isinstance(function, types.FunctionType) and function.__code__.co_argcount > 0:
            return self.function(function, {function.__code__.co_varnames[0]: instance})
        return self.function(function, {})

    def walk(self, value, steps):
        for at, (step, key) in enumerate(steps):
            if step == "attribute" and type(value) in (list, dict) and key in _READERS:
                break
            if step == "each":
                for element in self.elements(value):
                    self.walk(element, steps[at + 1 :])
                return
            try:
                value = self.attribute(value, key) if step == "attribute" else self.item(value, key)
            except Exception:  # an object that does not let itself be looked at
                return
            if value is MISSING:
                return
        self.reached(value, 0)

    def item(self, value, key):
        if type(value) is tuple and isinstance(key, int) and -len(value) <= key < len(value):
            return value[key]
        if type(value) is list and isinstance(key, int) and -len(value) <= key < len(value):
            self.guard(ELEMENT, value, key, value[key])
            return value[key]
        if isinstance(value, dict) and type(value).__getitem__ is dict.__getitem__:
            held = dict.get(value, key, MISSING)
            self.guard(ENTRY, value, key, held)
            return held
        return MISSING

    def elements(self, value):
        """Those of a container that is gone through, guarded; a dict's are its keys."""
        if type(value) in (list, dict) and len(value) <= _MOST_ENTRIES:
            self.guard(LENGTH, value, None, len(value))
            if type(value) is list:
                for i, element in enumerate(value):
                    self.guard(ELEMENT, value, i, element)
            return list(value)
        return value if type(value) is tuple and len(value) <= _MOST_ENTRIES else ()

    def attribute(self, value, name):
        if isinstance(value, types.ModuleType):
            if _is_library(value):
                return vars(value).get(name, MISSING)
            held = vars(value).get(name, MISSING)
            self.guard(ENTRY, vars(value), name, held)
            return held
        if isinstance(value, _Bound):
            return MISSING
        if isinstance(value, type):
            held = self.of_class(value, name)
            return _Bound(held.__func__, value) if isinstance(held, classmethod) else getattr(held, "__func__", held)
        return self.of_instance(value, name)

    def of_class(self, kind, name):
        """What the class or one of its bases holds under a name."""
        for base in kind.__mro__:
            held = base.__dict__.get(name, MISSING)
            if base.__flags__ & 1 << 9 and not _is_library(base):  # Py_TPFLAGS_HEAPTYPE: others do not change
                self.guard(CLASS, base, name, held)
            if held is not MISSING:
                return held
        return MISSING

    def of_instance(self, value, name):
        kind = type(value)
        if isinstance(kind.__getattribute__, types.FunctionType):
            return MISSING
        held = self.of_class(kind, name)
        if isinstance(held, property):
            if isinstance(held.fget, types.FunctionType):
                self.bound(held.fget, value)
            return MISSING
        if isinstance(held, types.MemberDescriptorType):
            found = getattr(value, name, MISSING)
            self.guard(SLOT, value, name, found)
            return found
        if hasattr(type(held), "__set__") and held is not MISSING:
            return MISSING
        fields = getattr(value, "__dict__", None)
        if type(fields) is dict:
            own = fields.get(name, MISSING)
            self.guard(ENTRY, fields, name, own)
            if own is not MISSING:
                return own
            if held is MISSING:
                return self.of_torch_module(fields, name)
        if isinstance(held, types.FunctionType):
            return _Bound(held, value)
        if isinstance(held, classmethod):
            return _Bound(held.__func__, kind)
        if isinstance(held, staticmethod):
            return held.__func__
        return MISSING if hasattr(type(held), "__get__") and not callable(held) else held

    def of_torch_module(self, fields, name):
        """torch's modules keep what they own in dicts of their own, behind __getattr__."""
        for part in ("_parameters", "_buffers", "_modules"):
            owned = fields.get(part)
            if isinstance(owned, dict) and name in owned:
                self.guard(ENTRY, owned, name, owned[name])
                return owned[name]
        return MISSING

    def reached(self, value, depth):
        """Follows what a chain ends at, as it may be called, or gone through."""
        if isinstance(value, _Bound):
            self.bound(value.function, value.instance)
        elif isinstance(value, (types.FunctionType, types.MethodType)) or type(value).__name__ == "JitFunction":
            self.function(value, {})
        elif isinstance(value, functools.partial):
            self.reached(value.func, depth)
        elif type(value) in (list, tuple, dict):
            if depth < _MOST_DEPTH:
                inside = self.elements(value)
                if type(value) is dict and inside:
                    for key, element in value.items():
                        self.guard(ENTRY, value, key, element)
                        self.reached(element, depth + 1)
                else:
                    for element in inside:
                        self.reached(element, depth + 1)
        elif type(value).__flags__ & 1 << 9 and not isinstance(value, type):
            # torch's modules are called by a method of torch's, which calls theirs.
            for name in ("__call__", "forward"):
                held = getattr(type(value), name, None)
                if not isinstance(held, types.FunctionType):
                    continue
                held = self.of_class(type(value), name) if name == "__call__" else self.attribute(value, name)
                if isinstance(held, _Bound):
                    self.bound(held.function, held.instance)
                elif held is not MISSING:
                    self.bound(held, value)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def collect(function, arguments):
    """The guards of `function` and of all that it can be seen to reach, as (kind, holder, key, held, firm) each. What is not
    firm may be what the function writes as it is traced, as counters and memos are (Variant::settle_guards)."""
    collector = _Collector(function)
    collector.function(function, arguments, root=True)
    return collector.guards
