#!/bin/sh
# test_check_types.sh TOOLS - check-types against small trees, good and bad.
tools=$1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/a" "$tree/src/b" "$tree/include/flotilla"
failed=0

# expect NAME TEXT: check-types fails and says TEXT; empty: it passes.
expect()
{
    said=$("$tools/check-types" "$tree" 2>&1)
    status=$?
    case $2 in
    '') [ $status -eq 0 ] && [ -z "$said" ] ;;
    *)  [ $status -ne 0 ] && [ "$said" = "$2" ] ;;
    esac && return
    echo "FAIL $1: status $status, said: $said"
    failed=1
}

printf 'typedef struct fl_x {\n    int i;\n} fl_x;\n' >"$tree/src/a/x.h"
printf 'typedef struct fl_x fl_x;\nstruct job {\n};\n' >"$tree/src/b/y.h"
printf 'struct job {\n};\nextern struct fl_x *p;\n' >"$tree/src/b/z.h"
expect names_that_are_used_are_not_definitions ''

printf '\ntypedef enum {\n    A\n} fl_x;\n' >"$tree/src/b/w.h"
expect a_second_definition_is_named_with_both_places \
    "src/b/w.h:4: type fl_x is also defined in src/a/x.h"
rm "$tree/src/b/w.h"

printf 'struct fl_x {\n};\n' >"$tree/src/b/w.c"
expect a_struct_behind_an_opaque_name_counts \
    "src/b/w.c:1: type fl_x is also defined in src/a/x.h"
rm "$tree/src/b/w.c"

printf 'typedef void (*fl_fn)(int i);\n' >"$tree/src/a/f.h"
printf 'typedef int (*fl_fn)(void);\n' >"$tree/src/b/f.h"
expect types_of_functions_count \
    "src/b/f.h:1: type fl_fn is also defined in src/a/f.h"
exit $failed
