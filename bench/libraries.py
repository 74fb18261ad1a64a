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


def compile_plugins(directory):
    directory.mkdir(parents=True, exist_ok=True)
    for name, (source, flags, needed) in sources(pathlib.Path(sys.prefix)).items():
        text, plugin = HERE / "libraries" / f"{source}.cpp", directory / f"{name}.so"
        if needed is None:
            print(f"{name} is not to be had here")
            plugin.unlink(missing_ok=True)
            continue
        newest = max(path.stat().st_mtime for path in (text, HERE / "libraries" / "library.h"))
        if plugin.exists() and plugin.stat().st_mtime > newest:
            continue
        command = ["g++", "-std=c++20", "-O3", "-march=native", "-fPIC", "-shared", f"-I{HERE.parent}", str(text)]
        if subprocess.run([*command, "-o", str(plugin), *flags]).returncode:
            print(f"{name}'s plugin does not compile here")


def load(options):
    """Those peers whose plugin is there and opens; and why the others do not."""
    from native import Library

    peers, missing = [], {}
    for name, (_, _, needed) in sources(pathlib.Path(sys.prefix)).items():
        plugin = pathlib.Path(options.plugins).resolve() / f"{name}.so"
        if options.peer and name not in options.peer:
            continue
        try:
            peers.append(Library(name, plugin, needed, options.thread_count))
        except OSError as error:
            missing[name] = str(error)
    return peers, missing


if __name__ == "__main__":
    compile_plugins(pathlib.Path(sys.argv[1]))
