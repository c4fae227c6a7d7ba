#!/usr/bin/env python3
"""PoCL with the built-in functions that charl's kernels call, for the tests.

    small_pocl.py ROOT OUT      ROOT: charl's sources. OUT/vendors is for OCL_ICD_VENDORS, or OUT/apart where programs have a sanitizer,
                                OUT/bin for COMPILER_PATH; OUT/stamp is written last.

PoCL reads its library of built-in functions, 10 MB of bitcode, in every process that compiles a kernel. That takes a second of a
processor, in most tests more than all else. The tree in OUT is PoCL as installed (links), but with

    kernel-*.bc     without the functions that prelude/builtins.clh does not declare and no function left calls; those left are the same.
                    Who needs another gets an error of the link, never another function: add it to ALSO below.
    opencl-c.h      clang's header in a condition of its own, so that a program that does without it does not read its megabyte
    ld              links kernels without libm, libgcc and libc, whose tables are most of what it reads: kernels call memcpy and memset of
                    the process. Other files are linked as always.
    apart           the same PoCL behind pocl_apart.c.

Other drivers stay as they are. Where PoCL cannot be divided like this, for example because it looks for its files elsewhere, OUT/vendors
has the installed PoCL and a message says why.
"""
import ctypes
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

VENDORS = "/etc/OpenCL/vendors"
# Called by kernels of the tests that are built with clang's header, and by those of tensor cores.
ALSO = {"cospi", "convert_long2", "convert_long4"}
PROGRAM = b"kernel void f(global float *x) { x[get_global_id(0)] = sqrt(x[0]); }"
LINKER = """#!/bin/sh
# PoCL's kernels, which are named so, without libraries: they call memcpy and memset of the process that loads them.
case " $* " in
*" -o "*/tempfile_*.so" "*)
    for argument; do
        shift
        case $argument in
        -l* | -L*) ;;
        *) set -- "$@" "$argument" ;;
        esac
    done
    ;;
esac
exec {} "$@"
"""
EXTERNAL, INTERNAL = 0, 8  # LLVMLinkage
APART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pocl_apart.c")


class Refused(Exception):
    pass


def function(library, name, result, *arguments):
    f = getattr(library, name)
    f.restype = result
    f.argtypes = arguments
    return f


def probe():
    """Build a program on the only platform. PoCL with POCL_DEBUG=llvm says which library it takes."""
    cl = ctypes.CDLL("libOpenCL.so.1")
    pointer = ctypes.c_void_p
    platform, device, error = pointer(), pointer(), ctypes.c_int32()
    every = ctypes.c_uint64(0xFFFFFFFF)
    cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
    if cl.clGetDeviceIDs(platform, every, 1, ctypes.byref(device), None) != 0:
        sys.exit(1)
    context = function(cl, "clCreateContext", pointer)(None, 1, ctypes.byref(device), None, None, ctypes.byref(error))
    text = ctypes.c_char_p(PROGRAM)
    program = function(cl, "clCreateProgramWithSource", pointer)(
        pointer(context), 1, ctypes.byref(text), None, ctypes.byref(error))
    sys.exit(0 if cl.clBuildProgram(pointer(program), 1, ctypes.byref(device), b"", None, None) == 0 else 1)


def library_in_use(vendors):
    """The library of built-in functions that PoCL takes, where it is the driver in the folder."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, OCL_ICD_VENDORS=vendors, POCL_CACHE_DIR=cache, POCL_DEBUG="llvm")
        ran = subprocess.run([sys.executable, __file__, "--probe"], env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Using (\S+\.bc) as the built-in lib", ran.stderr)
    if ran.returncode != 0 or not found:
        raise Refused("it does not build a program" if ran.returncode != 0 else "it does not say which library it uses")
    return found[1]


def pocl_and_llvm(icd):
    """Paths of PoCL, whose name is in the ICD file, and of the LLVM that it is linked with."""
    with open(icd, encoding="utf-8") as f:
        ctypes.CDLL(f.read().strip())
    with open("/proc/self/maps", encoding="utf-8") as f:
        mapped = sorted({line.split()[-1] for line in f if "/" in line})
    pocl = [path for path in mapped if re.search(r"/libpocl\.so[.0-9]*$", path)]
    llvm = [path for path in mapped if "/libLLVM" in path]
    if len(pocl) != 1 or len(llvm) != 1:
        raise Refused("it is not linked with LLVM as a shared library")
    return pocl[0], llvm[0]


def declared(root):
    """The names that prelude/builtins.clh declares."""
    header = os.path.join(root, "kernels/prelude/builtins.clh")
    ran = subprocess.run(["cc", "-E", "-P", "-x", "c", "-DCHARL_BUILTINS", header], capture_output=True, text=True, check=True)
    return set(re.findall(r"(\w+)\(", ran.stdout)) | ALSO


def is_wanted(symbol, names):
    mangled = re.match(r"_Z(\d+)(.*)", symbol)
    if not mangled: # what PoCL itself calls
        return "pocl" in symbol or symbol == "printf"
    name, types = mangled[2][:int(mangled[1])], mangled[2][int(mangled[1]):]
    # _cl_fma is fma. Kernels have no vectors of three (Dv3_) and no double (d).
    return name.removeprefix("_cl_") in names and "Dv3_" not in types and "d" not in types


def reduce(llvm, source, target, names):
    """Write the library without the functions that neither are wanted nor called by others."""
    pointer = ctypes.c_void_p
    ll = ctypes.CDLL(llvm)
    first = function(ll, "LLVMGetFirstFunction", pointer, pointer)
    following = function(ll, "LLVMGetNextFunction", pointer, pointer)
    name_of = function(ll, "LLVMGetValueName2", ctypes.c_char_p, pointer, pointer)
    is_declaration = function(ll, "LLVMIsDeclaration", ctypes.c_int, pointer)
    get_linkage = function(ll, "LLVMGetLinkage", ctypes.c_int, pointer)
    set_linkage = function(ll, "LLVMSetLinkage", None, pointer, ctypes.c_int)

    def functions(module):
        at = first(module)
        while at:
            yield at
            at = following(at)

    context = function(ll, "LLVMContextCreate", pointer)()
    buffer, module, message, length = pointer(), pointer(), ctypes.c_char_p(), ctypes.c_size_t()
    if function(ll, "LLVMCreateMemoryBufferWithContentsOfFile", ctypes.c_int, ctypes.c_char_p, pointer, pointer)(
            source.encode(), ctypes.byref(buffer), ctypes.byref(message)) != 0:
        raise Refused(f"{source} cannot be read")
    if function(ll, "LLVMParseBitcodeInContext2", ctypes.c_int, pointer, pointer, pointer)(
            context, buffer, ctypes.byref(module)) != 0:
        raise Refused(f"{source} is no bitcode of {llvm}")
    hidden = set()
    before = 0
    for f in functions(module):
        before += 1
        if (not is_declaration(f) and get_linkage(f) == EXTERNAL
                and not is_wanted(name_of(f, ctypes.byref(length)).decode(), names)):
            set_linkage(f, INTERNAL)
            hidden.add(f)
    options = function(ll, "LLVMCreatePassBuilderOptions", pointer)()
    if function(ll, "LLVMRunPasses", pointer, pointer, ctypes.c_char_p, pointer, pointer)(
            module, b"globaldce", None, options):
        raise Refused("LLVM has no pass globaldce")
    after = 0
    for f in functions(module):
        after += 1
        if f in hidden:
            set_linkage(f, EXTERNAL)
    if function(ll, "LLVMWriteBitcodeToFile", ctypes.c_int, pointer, ctypes.c_char_p)(module, target.encode()) != 0:
        raise Refused(f"{target} cannot be written")
    return before, after


def link_all(source, target):
    os.makedirs(target)
    for entry in os.listdir(source):
        os.symlink(os.path.join(source, entry), os.path.join(target, entry))


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def divide(icd, pocl, llvm, names, out):
    """Make the tree of PoCL in OUT; return what to print."""
    with tempfile.TemporaryDirectory() as alone:
        shutil.copy(icd, alone)
        library = library_in_use(alone)
    folder, data = os.path.dirname(pocl), os.path.dirname(os.path.realpath(library))
    lib = os.path.join(out, "usr/lib", os.path.basename(folder))
    share = os.path.join(out, "usr/share/pocl")
    os.makedirs(lib)
    os.symlink(pocl, os.path.join(lib, os.path.basename(pocl)))
    if os.path.isdir(os.path.join(folder, "pocl")):
        os.symlink(os.path.join(folder, "pocl"), os.path.join(lib, "pocl"))
    link_all(data, share)
    include = os.path.join(share, "include")
    if os.path.exists(os.path.join(include, "opencl-c.h")):
        os.remove(include)
        link_all(os.path.join(data, "include"), include)
        os.rename(os.path.join(include, "opencl-c.h"), os.path.join(include, "opencl-c-whole.h"))
        write(os.path.join(include, "opencl-c.h"), '#ifndef _OPENCL_H_\n#include "opencl-c-whole.h"\n#endif\n')
    small = os.path.join(share, os.path.basename(library))
    os.remove(small)
    before, after = reduce(llvm, library, small, names)
    vendors = os.path.join(out, "vendors")
    os.makedirs(vendors)
    write(os.path.join(vendors, os.path.basename(icd)), os.path.join(lib, os.path.basename(pocl)) + "\n")
    if os.path.realpath(library_in_use(vendors)) != os.path.realpath(small):
        raise Refused("it does not look for its files beside the library")
    apart = os.path.join(out, "apart")
    os.makedirs(apart)
    behind = os.path.join(lib, "libpocl_apart.so")
    # Without builtins, or the compiler makes calls of functions that the library replaces.
    ran = subprocess.run(["cc", "-O2", "-fno-builtin", "-shared", "-fPIC", f'-DPOCL="{os.path.join(lib, os.path.basename(pocl))}"', APART,
                          "-o", behind, "-ldl"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Refused(f"{os.path.basename(APART)} does not compile: {ran.stderr}")
    write(os.path.join(apart, os.path.basename(icd)), behind + "\n")
    return f"PoCL for the tests: {after} of {before} functions of {os.path.basename(library)}"


def main():
    if sys.argv[1:] == ["--probe"]:
        probe()
    root, out = sys.argv[1], os.path.realpath(sys.argv[2])
    icds = sorted(glob.glob(os.path.join(VENDORS, "*.icd")))
    icd = next(path for path in icds if "pocl" in os.path.basename(path))
    names = declared(root)
    stamp = os.path.join(out, "stamp")
    key = hashlib.sha256()
    for source in __file__, APART:
        with open(source, "rb") as f:
            key.update(f.read())
    try:
        pocl, llvm = pocl_and_llvm(icd)
        for path in icds + [pocl, llvm]:
            key.update(f"{path} {os.stat(path).st_mtime_ns}\n".encode())
        why = None
    except (Refused, OSError) as error:
        why = error
    key.update(f"{out} {sorted(names)} {why}".encode())
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as f:
            if f.read() == key.hexdigest():
                os.utime(stamp)
                return
    tree = os.path.join(out, key.hexdigest()[:16])
    shutil.rmtree(tree, ignore_errors=True)
    if not why:
        try:
            print(divide(icd, pocl, llvm, names, tree))
        except (Refused, OSError, AttributeError) as error:
            why = error
    if why:
        shutil.rmtree(tree, ignore_errors=True)
        print(f"tests use PoCL as it is installed: {why}")
    vendors, apart, programs = (os.path.join(tree, name) for name in ("vendors", "apart", "bin"))
    for folder in vendors, apart:
        os.makedirs(folder, exist_ok=True)
        for path in icds:
            if not os.path.exists(os.path.join(folder, os.path.basename(path))):
                shutil.copy(path, folder)
    os.makedirs(programs)
    linker = os.path.join(programs, "ld")
    write(linker, LINKER.format(shutil.which("ld")))
    os.chmod(linker, 0o755)
    for path in vendors, apart, programs: # at once, for tests that run; they keep the tree that they began with
        temporary = os.path.join(out, f"link.{os.getpid()}")
        os.symlink(path, temporary)
        os.rename(temporary, os.path.join(out, os.path.basename(path)))
    write(stamp, key.hexdigest())


main()
