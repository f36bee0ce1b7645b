#!/bin/sh
# check_symbols.sh LIBTEMPO [ALLOWED]: the shared library names nothing that ends the process, catches signals, prints,
# or reads the environment, but for what a library in it is allowed, a pattern: CUDA's runtime reads the environment.
set -eu
names=$(nm -D --undefined-only "$1" | sed 's/@.*//' | awk '{print $NF}')
[ "$(echo "$names" | grep -cx 'longjmp\|__longjmp_chk')" = 1 ] || { echo "no symbols to look at in $1"; exit 1; }
ends='exit|_exit|_Exit|quick_exit|abort|atexit|on_exit|__assert(_fail)?|signal|sigaction|raise|kill|system|popen'
prints='stdout|stderr|v?printf|__v?printf_chk|puts|putchar|perror|psignal'
found=$(echo "$names" | grep -xE "$ends|$prints|getenv|secure_getenv" | grep -vxE "${2:-}") || exit 0
echo "$1 uses:" $found
exit 1
