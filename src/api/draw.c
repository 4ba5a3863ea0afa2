/* draw.c - drawings of programs, laid out by Graphviz.
 *
 * dot is run on a text in a folder of its own, which is removed behind it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/command.h"
#include "base/file.h"
#include "exec/executor.h"
#include "ctx/ctx.h"
#include "ir/program.h"

#define DOT_TIMEOUT_MS 120000
#define SVG_MAX ((size_t)256 << 20)

/* What a link leads to stands out. */
static const char style[] =
    "<style>g:target polygon,g:target path,g:target ellipse"
    "{stroke:#c02020;stroke-width:3}text{pointer-events:none}</style>\n";

/* --- as a program is run --------------------------------------------------- */

fl_status fl_program_after_passes(fl_program **out, fl_ctx *c,
                                  const fl_program *p)
{
    fl_unit_spec spec = { .program = p,
                          .kind = FL_UNIT_ALONE,
                          .n_runners = 1,
                          .n_threads = 1,
                          .fetches = p->fetches.data,
                          .n_fetches = p->fetches.len,
                          .passes = fl_ctx_pass_options(c, p) };
    fl_program *made;

    FL_TRY(fl_unit_program(&spec, &made));
    made->ctx = c;
    *out = made;
    return FL_OK;
}

/* --- drawing -------------------------------------------------------------- */

static char *dot_of(const fl_drawn *drawn, size_t n)
{
    fl_drawn_program *all = fl_alloc((n + 1) * sizeof(*all));
    char *text;

    for (size_t i = 0; i < n; i++)
        all[i] = (fl_drawn_program){ drawn[i].program, drawn[i].title };
    text = fl_programs_dot(all, n);
    fl_free(all);
    return text;
}

static bool is_in_folder(const char *folder, size_t len, const char *name)
{
    fl_str path = { 0 };
    bool is;

    fl_str_addf(&path, "%.*s/%s", (int)len, len ? folder : ".", name);
    is = !access(path.data, X_OK);
    fl_str_release(&path);
    return is;
}

static fl_status find_dot(void)
{
    const char *at = getenv("PATH");

    while (at && *at) {
        size_t len = strcspn(at, ":");

        if (is_in_folder(at, len, "dot"))
            return FL_OK;
        at += len + (at[len] == ':');
    }
    FL_FAIL(FL_ERR_NOTFOUND,
            "the program dot, which lays drawings out, is not there; install "
            "Graphviz (Debian: apt-get install graphviz)");
}

/* From the file that dot has written: what is before the drawing itself is for
   files of their own, and would be in the way inside a page. */
static fl_status read_svg(const char *path, char **svg)
{
    fl_str out = { 0 };
    char *text, *at, *end;
    size_t len;

    FL_TRY(fl_file_read(path, SVG_MAX, &text, &len));
    at = strstr(text, "<svg");
    end = at ? strchr(at, '>') : NULL;
    if (!end) {
        fl_free(text);
        FL_FAIL(FL_ERR_CORRUPT, "dot has written no drawing");
    }
    fl_str_addf(&out, "%.*s>\n%s%s", (int)(end - at), at, style, end + 1);
    fl_free(text);
    *svg = fl_str_take(&out);
    return FL_OK;
}

static fl_status lay_out_in(const char *folder, const char *text, char **svg)
{
    fl_str in = { 0 }, out = { 0 };
    const char *words[2];
    fl_command run = { .text = "dot -Tsvg -o",
                       .words = words,
                       .n_words = FL_LEN(words),
                       .timeout_ms = DOT_TIMEOUT_MS };
    fl_status st;

    fl_str_addf(&in, "%s/program.dot", folder);
    fl_str_addf(&out, "%s/program.svg", folder);
    words[0] = out.data;
    words[1] = in.data;
    st = fl_file_write(in.data, text, strlen(text));
    if (!st)
        st = fl_command_run(&run);
    if (!st)
        st = read_svg(out.data, svg);
    unlink(in.data);
    unlink(out.data);
    fl_str_release(&in);
    fl_str_release(&out);
    return st;
}

static fl_status lay_out(const char *text, char **svg)
{
    const char *place = getenv("TMPDIR");
    fl_str folder = { 0 };
    fl_status st;

    FL_TRY(find_dot());
    fl_str_addf(&folder, "%s/flotilla-draw-XXXXXX",
                place && *place ? place : "/tmp");
    if (mkdtemp(folder.data)) {
        st = lay_out_in(folder.data, text, svg);
        rmdir(folder.data);
    } else {
        st = fl_file_failed("make a folder", folder.data, errno);
    }
    fl_str_release(&folder);
    return fl_err_ctx(st, "drawing");
}

fl_status fl_programs_draw(char **out, fl_drawing_form form,
                           const fl_drawn *programs, size_t n)
{
    char *text = dot_of(programs, n);
    fl_status st;

    if (form == FL_DRAWING_DOT) {
        *out = text;
        return FL_OK;
    }
    st = lay_out(text, out);
    fl_free(text);
    return st;
}

char *fl_program_to_svg(const fl_program *p)
{
    char *svg = NULL;

    return fl_programs_draw(&svg, FL_DRAWING_SVG, &(fl_drawn){ .program = p },
                            1)
               ? NULL
               : svg;
}
