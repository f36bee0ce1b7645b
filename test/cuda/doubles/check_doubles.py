#!/usr/bin/env python3
"""check_doubles.py CC HEADERS [--double FOLDER]: the doubles' declarations against CUDA's own, in folder HEADERS.

A C file that includes CUDA's headers declares every function of the doubles once more, which the compiler refuses if it
is not the same, and asserts the number of every enumerator and macro, the size of every opaque object, and that every
member of cudaDeviceProp is there, and of other structs where it is. Exit code 77 where there are no such headers.
"""
import os
import re
import subprocess
import sys
import tempfile

DOUBLES = {'cudart_double.h': 'cuda_runtime_api.h', 'cublaslt_double.h': 'cublasLt.h', 'cudnn_double.h': 'cudnn.h',
           'nccl_double.h': 'nccl.h'}
APART = ('cudnn.h', 'nccl.h')  # no part of CUDA's toolkit


def split(text):
    """What stands before each semicolon outside braces, without comments and lines of the preprocessor."""
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'#ifdef __cplusplus.*?#endif', ' ', text, flags=re.S)
    text = re.sub(r'^#(?:[^\n]*\\\n)*[^\n]*$', ' ', text, flags=re.M)
    found, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == '{') - (char == '}')
        if char == ';' and depth == 0:
            found.append(re.sub(r'\s+', ' ', text[begin:at]).strip())
            begin = at + 1
    return [one for one in found if one]


def enumerators(body):
    """Names and numbers of 'A = 1, B = 2'."""
    for one in body.split(','):
        if one.strip():
            name, number = one.split('=')
            yield name.strip(), number.strip()


def checks(path):
    """Lines of C that compile only if the header says what CUDA's headers say."""
    with open(path, encoding='utf-8') as file:
        text = file.read()
    for name, number in re.findall(r'^    E\((\w+), (\d+),', text, flags=re.M):
        yield f'_Static_assert({name} == {number}, "{name}");'
    for name, number in re.findall(r'^#define (c\w+|CU[A-Z]+_VER\w*|NCCL_\w+) (\(?[0-9][\w ]*\)?)$', text, flags=re.M):
        yield f'_Static_assert({name} == {number}, "{name}");'
    for one in split(text):
        enum = re.match(r'(?:typedef )?enum(?: \w+)? \{(.*)\}', one)
        struct = re.match(r'struct (\w+) \{(.*)\}$', one)
        named = re.match(r'typedef struct \w+ \{(.*)\} (\w+)$', one)
        opaque = re.match(r'typedef struct \{ uint64_t data\[(\d+)\]; \} (\w+)$', one)
        function = re.match(r'(?:const )?\w+ \**(\w+)\(.*\)$', one)
        if enum and '=' in enum.group(1):
            for name, number in enumerators(enum.group(1)):
                yield f'_Static_assert((int){name} == {number}, "{name}");'
        elif struct:
            for member in struct.group(2).split(';'):
                if member.strip():
                    kind, name, count = re.match(r'\s*(.*?) (\w+)((?:\[\d+\])?)\s*$', member).groups()
                    yield (f'_Static_assert(sizeof(((struct {struct.group(1)} *)0)->{name}) == '
                           f'sizeof({kind}{count}), "{name}");')
        elif named:  # the same members, one behind the other
            yield f'typedef struct {{{named.group(1)}}} our_{named.group(2)};'
            yield f'_Static_assert(sizeof(our_{named.group(2)}) == sizeof({named.group(2)}), "{named.group(2)}");'
            for name in re.findall(r'(\w+)(?:\[\d+\])?;', named.group(1)):
                for of in (f'__builtin_offsetof({{}}, {name})', f'sizeof((({{}} *)0)->{name})'):
                    yield (f'_Static_assert({of.format("our_" + named.group(2))} == {of.format(named.group(2))}, '
                           f'"{named.group(2)}.{name}");')
        elif opaque:
            yield f'_Static_assert(sizeof({opaque.group(2)}) == {8 * int(opaque.group(1))}, "{opaque.group(2)}");'
        elif function:
            yield f'extern __typeof__({function.group(1)}) {function.group(1)};'  # it is there at all
            yield one + ';'


def main():
    compiler, headers = sys.argv[1], sys.argv[2]
    folder = sys.argv[4] if sys.argv[3:4] == ['--double'] else os.path.dirname(os.path.abspath(__file__))
    if not os.path.exists(os.path.join(headers, 'cublasLt.h')):
        print('CUDA\'s headers are not here')
        return 77
    lines = []
    with tempfile.TemporaryDirectory() as work:
        source = os.path.join(work, 'check.c')
        with open(source, 'w', encoding='utf-8') as file:
            for ours, theirs in DOUBLES.items():
                if theirs not in APART or os.path.exists(os.path.join(headers, theirs)):
                    print(f'#include <{theirs}>', file=file)
                    lines += checks(os.path.join(folder, ours))
            print('\n'.join(lines), file=file)
        done = subprocess.run([compiler, '-std=c11', '-Werror', '-isystem', headers, '-fsyntax-only', source],
                              capture_output=True, text=True, check=False)
    print(f'{len(lines)} declarations')
    sys.stdout.write(done.stderr)
    return 1 if done.returncode != 0 or len(lines) < 200 else 0


if __name__ == '__main__':
    sys.exit(main())
