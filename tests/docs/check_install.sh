#!/bin/sh
# check_install.sh ROOT BUILD PREFIX - the README's program builds against the
# installed library as the README says, and runs.
root=$1 build=$2 prefix=$3
here=$(cd "$(dirname "$0")" && pwd)
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT
lib=$stage$prefix/lib

DESTDIR=$stage "$root/tools/meson" install -C "$build" --no-rebuild \
    >"$stage/log" 2>&1 || { cat "$stage/log"; exit 1; }
"$here/extract_c.sh" "$root/README.md" >"$stage/first.c" || exit 1

# The packaged file speaks of PREFIX; here everything lies below the stage.
flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config \
    --define-variable=prefix="$stage$prefix" --cflags --libs flotilla) || exit 1
cd "$stage" || exit 1
# shellcheck disable=SC2086
${CC:-cc} first.c -o first $flags || exit 1
LD_LIBRARY_PATH=$lib ./first || exit 1
"$stage$prefix/bin/flotilla" version
