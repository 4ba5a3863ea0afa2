#!/bin/sh
# check_example.sh ROOT - the README's program compiles without a warning, as C
# and as C++, with nothing but the public headers in sight.
here=$(cd "$(dirname "$0")" && pwd)
program=$("$here/extract_c.sh" "$1/README.md") || {
    echo "FAIL README.md has no C program"
    exit 1
}
printf '%s\n' "$program" |
    ${CC:-cc} -std=c17 -Wall -Wextra -Werror -fsyntax-only \
        -I"$1/include" -x c - || exit 1
command -v g++ >/dev/null || exit 0
printf '%s\n' "$program" |
    g++ -std=c++20 -Wall -Werror -fsyntax-only -I"$1/include" -x c++ -
