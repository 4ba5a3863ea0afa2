#!/bin/sh
# check_install.sh ROOT BUILD PREFIX - the README's program builds against the
# installed library as the README says, and runs: in the system's place, and in
# a prefix of one's own, where PKG_CONFIG_PATH is all that is set.
root=$1 build=$2 prefix=$3
here=$(cd "$(dirname "$0")" && pwd)
stage=$(mktemp -d) || exit 1
trap 'rm -rf "$stage"' EXIT
lib=$stage$prefix/lib

DESTDIR=$stage "$root/tools/meson" install -C "$build" --no-rebuild \
    >"$stage/log" 2>&1 || { cat "$stage/log"; exit 1; }
commands=$(cd "$stage$prefix/bin" && echo *)
[ "$commands" = "fleetrun flotilla" ] || {
    echo "FAIL make install gives the commands: $commands"
    exit 1
}
"$here/extract_c.sh" "$root/README.md" >"$stage/first.c" || exit 1

# The packaged file speaks of PREFIX; here everything lies below the stage.
flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config \
    --define-variable=prefix="$stage$prefix" --cflags --libs flotilla) || exit 1
cd "$stage" || exit 1
# shellcheck disable=SC2086
${CC:-cc} first.c -o first $flags || exit 1
LD_LIBRARY_PATH=$lib ./first || exit 1
"$stage$prefix/bin/flotilla" version || exit 1

# The networks that come with it, as a library and to copy.
cat >"$stage/net.c" <<'END'
#include <flotilla/models/models.h>
#include <stdio.h>
int main(void)
{
    model_net net = { 0 };
    fl_ctx *c;

    if (fl_ctx_new(&c) ||
        model_find("ctr_dnn")->build(c, &(model_args){ 0 }, &net))
        return printf("FAIL %s\n", fl_last_error());
    printf("%zu feeds\n", net.n_feeds);
    fl_ctx_free(c);
    return 0;
}
END
flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config \
    --define-variable=prefix="$stage$prefix" --cflags --libs flotilla-models) ||
    exit 1
# shellcheck disable=SC2086
${CC:-cc} net.c -o net $flags -lm || exit 1
LD_LIBRARY_PATH=$lib ./net || exit 1
[ -f "$stage$prefix/share/flotilla/models/deepfm.c" ] || {
    echo "FAIL the networks are not there to copy"
    exit 1
}

# The same files in a place of one's own; only the packaged file differs, and
# configuring is enough to write it.
own=$stage/own
cp -a "$stage$prefix" "$own" || exit 1
"$root/tools/meson" setup "$stage/again" "$root" --prefix "$own" \
    -Dtests=disabled >"$stage/log" 2>&1 || { cat "$stage/log"; exit 1; }
cp "$stage/again/meson-private/flotilla.pc" "$own/lib/pkgconfig/" || exit 1
flags=$(PKG_CONFIG_PATH=$own/lib/pkgconfig pkg-config --cflags --libs \
    flotilla) || exit 1
# shellcheck disable=SC2086
${CC:-cc} first.c -o second $flags || exit 1
env -u LD_LIBRARY_PATH ./second
