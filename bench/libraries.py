"""The peers of the C++ table: their plugins (bench/libraries), compiled here against what is installed.

python bench/libraries.py DIRECTORY     compiles every plugin whose library is to be had
"""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def first(directory, *patterns):
    """The first file below `directory` that matches one of the patterns."""
    for pattern in patterns:
        for path in sorted(directory.glob(pattern)):
            return path
    return None


def sources(prefix):
    """For each peer: its plugin's source, what the compiler needs to know, and what is loaded. None: not to be had."""
    packages = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    onednn = first(prefix, "lib/libdnnl.so")
    eigen = pathlib.Path("/usr/include/eigen3")
    found = {
        "openblas": ("blas", ["-ldl"], first(packages, "scipy_openblas32/lib/libscipy_openblas.so")),
        "mkl": ("blas", ["-ldl"], first(prefix, "lib/libmkl_rt.so.*")),
        "onednn": (
            "onednn",
            [f"-I{prefix}/include", f"-L{prefix}/lib", "-ldnnl", f"-Wl,-rpath,{prefix}/lib"],
            onednn,
        ),
        "eigen": ("eigen", [f"-I{eigen}", "-fopenmp"], eigen if (eigen / "Eigen" / "Core").exists() else None),
    }
    return found


ISAS = {"": "native", "-avx2": "haswell"}  # a plugin's suffix, and the compiler's name for what its own code may use


def compile_plugins(directory):
    directory.mkdir(parents=True, exist_ok=True)
    for name, (source, flags, needed) in sources(pathlib.Path(sys.prefix)).items():
        text = HERE / "libraries" / f"{source}.cpp"
        if needed is None:
            print(f"{name} is not to be had here")
        newest = max(path.stat().st_mtime for path in (text, HERE / "libraries" / "library.h"))
        for suffix, architecture in ISAS.items():
            plugin = directory / f"{name}{suffix}.so"
            if needed is None:
                plugin.unlink(missing_ok=True)
            elif not plugin.exists() or plugin.stat().st_mtime < newest:
                command = ["g++", "-std=c++20", "-O3", f"-march={architecture}", "-fPIC", "-shared", f"-I{HERE.parent}"]
                if subprocess.run([*command, str(text), "-o", str(plugin), *flags]).returncode:
                    print(f"{plugin.name} does not compile here")


def load(options):
    """Those peers whose plugin is there and opens; and why the others do not."""
    from native import Library

    peers, missing = [], {}
    for name, (_, _, needed) in sources(pathlib.Path(sys.prefix)).items():
        isa = "" if options.isa == "native" else f"-{options.isa}"
        plugin = pathlib.Path(options.plugins).resolve() / f"{name}{isa}.so"
        if options.peer and name not in options.peer:
            continue
        try:
            peers.append(Library(name, plugin, needed, options.thread_count))
        except OSError as error:
            missing[name] = str(error)
    return peers, missing


if __name__ == "__main__":
    compile_plugins(pathlib.Path(sys.argv[1]))
