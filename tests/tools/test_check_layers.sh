#!/bin/sh
# test_check_layers.sh TOOLS - check-layers against small trees, good and bad.
tools=$1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/models" "$tree/python" "$tree/src/base" "$tree/src/ops" "$tree/src/odd" \
    "$tree/include/flotilla" "$tree/cmd" "$tree/examples" "$tree/bench"
cd "$tree" || exit 1
printf '%s\n' '# a comment' 'base' 'ops: base' >src/LAYERS
failed=0

# expect NAME TEXT: check-layers fails and says TEXT; empty: it passes.
expect()
{
    said=$("$tools/check-layers" "$tree" 2>&1)
    status=$?
    case $2 in
    '') [ $status -eq 0 ] && [ -z "$said" ] ;;
    *)  [ $status -ne 0 ] && [ "$said" = "$2" ] ;;
    esac && return
    echo "FAIL $1: status $status, said: $said"
    failed=1
}

# refuses NAME FILE INCLUDE TEXT: that include alone makes the tree bad.
refuses()
{
    printf '/* second line */\n#include %s\n' "$3" >"$2"
    expect "$1" "$4"
    rm "$2"
}

printf '#include "base/a.h"\n#include <stdio.h>\n' >src/ops/x.c
printf '#include "flotilla/a.h"\n#include "ops/ops.def"\n' >src/ops/y.c
printf '#include <flotilla/a.h>\n#include "cmds.def"\n' >cmd/main.c
expect an_allowed_include_passes ''

refuses an_upward_include_is_named src/base/a.c '"ops/x.h"' \
    'src/base/a.c:2: base may not include "ops/x.h"'
refuses brackets_do_not_hide_an_include src/base/a.c '<ops/x.h>' \
    'src/base/a.c:2: base may not include "ops/x.h"'
refuses an_include_names_its_folder src/base/a.c '"b.h"' \
    'src/base/a.c:2: base may not include "b.h"'
refuses a_path_does_not_climb src/ops/a.h '"base/../ops/x.h"' \
    'src/ops/a.h:2: ops may not include "base/../ops/x.h"'
refuses a_list_is_checked_too src/base/a.def '"ops/ops.def"' \
    'src/base/a.def:2: base may not include "ops/ops.def"'
refuses a_folder_without_a_row_is_named src/odd/a.c '<stdio.h>' \
    'src/odd/a.c: src/LAYERS does not know odd'
refuses a_public_header_sees_no_inner_one include/flotilla/a.h '"base/a.h"' \
    'include/flotilla/a.h:2: include may not include "base/a.h"'
refuses the_tool_sees_public_headers_only cmd/a.c '"base/a.h"' \
    'cmd/a.c:2: cmd may not include "base/a.h"'
refuses an_example_sees_public_headers_only examples/a.c '"base/a.h"' \
    'examples/a.c:2: examples may not include "base/a.h"'
refuses a_benchmark_sees_public_headers_only bench/a.c '"base/a.h"' \
    'bench/a.c:2: bench may not include "base/a.h"'

exit $failed
