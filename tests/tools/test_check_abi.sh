#!/bin/sh
# test_check_abi.sh TOOLS - check-abi against small libraries: what may change
# between two releases, and what may not.
command -v abidw >/dev/null && command -v abidiff >/dev/null || exit 77
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/tools" "$tree/include/flotilla/experimental"
cp "$1/check-abi" "$tree/tools" || exit 1
failed=0

# build [FIELD [FIXED [DECLARATION [PARAMETER [BODY]]]]] - the library, with a
# field at the end of a struct that has a size, and of one that has none, another
# function, and another parameter of an experimental one.
build()
{
    cat >"$tree/include/flotilla/x.h" <<END
#include <stdint.h>
typedef struct fl_grows {
    uint32_t size;
    int a;
    $1
} fl_grows;
typedef struct fl_fixed {
    int a;
    $2
} fl_fixed;
int fl_of_grows(fl_grows *g);
int fl_of_fixed(fl_fixed *f);
$3
END
    printf 'int fl_try(int a%s);\n' "$4" \
        >"$tree/include/flotilla/experimental/y.h"
    # Types have to have the places of the headers.
    printf '%s\n' '#include "flotilla/x.h"' '#include "flotilla/experimental/y.h"' \
        'int fl_of_grows(fl_grows *g) { return g->a; }' \
        'int fl_of_fixed(fl_fixed *f) { return f->a; }' \
        "int fl_try(int a$4) { return a; }" "$5" >"$tree/all.c"
    (cd "$tree" && ${CC:-cc} -shared -fPIC "${debug:--g}" -Iinclude all.c -o lib.so)
}

# expect NAME passes|fails [TEXT]
expect()
{
    said=$("$tree/tools/check-abi" "$tree/lib.so" 2>&1)
    status=$?
    case $2 in
    passes) [ $status -eq 0 ] ;;
    *)      [ $status -ne 0 ] ;;
    esac && case $said in *"$3"*) return ;; esac
    echo "FAIL $1: status $status, said: $said"
    failed=1
}

build && "$tree/tools/check-abi" --update "$tree/lib.so" || exit 1
expect what_was_recorded_is_the_same passes
build 'int b;'
expect a_struct_with_a_size_may_grow passes
build '' 'int b;'
expect a_struct_without_one_may_not fails fl_fixed
build '' '' 'int fl_more(int a);' '' 'int fl_more(int a) { return a; }'
expect a_function_may_be_added passes
build '' '' '' ', int b'
expect what_is_experimental_may_change passes
sed -i 's/^int fl_of_fixed/static &/' "$tree/all.c" "$tree/include/flotilla/x.h"
(cd "$tree" && ${CC:-cc} -shared -fPIC -g -Iinclude all.c -o lib.so)
expect a_function_may_not_go fails fl_of_fixed
debug=-g0
build
expect a_library_without_debug_information_is_refused fails 'build it with -g'
exit $failed
