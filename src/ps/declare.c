/* declare.c - texts of declarations: may they be shown, and are they the same? */
#include "ps/declare.h"

#include <stdbool.h>
#include <string.h>

/* What a message shows of a line, and how much of it before the place where
   two lines differ. */
#define SHOWN_MAX 160
#define SHOWN_BEFORE 60

/* Nothing that a terminal would take for a command, and no end in mid-text. */
fl_status fl_declaration_check(const char *text, size_t len)
{
    size_t line = 1;

    if (len > FL_DECLARE_BYTES_MAX)
        FL_FAIL(FL_ERR_INVAL, "declaration: %zu bytes are more than %u", len,
                FL_DECLARE_BYTES_MAX);
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)text[i];

        if (ch == '\n')
            line++;
        else if (ch < ' ' || ch == 0x7f)
            FL_FAIL(FL_ERR_INVAL,
                    "declaration: line %zu has the control character 0x%02x",
                    line, ch);
    }
    return FL_OK;
}

/* --- comparing ------------------------------------------------------------ */

/* A piece of the text, not NUL-terminated. */
typedef struct piece {
    const char *at, *end;
} piece;

static size_t piece_len(piece p)
{
    return (size_t)(p.end - p.at);
}

static int shown_len(piece p)
{
    return (int)(piece_len(p) < SHOWN_MAX ? piece_len(p) : SHOWN_MAX);
}

/* Up to the end of the line, which is dropped. */
static piece cut_line(piece *rest)
{
    const char *found = memchr(rest->at, '\n', piece_len(*rest));
    piece p = { rest->at, found ? found : rest->end };

    rest->at = found ? found + 1 : rest->end;
    return p;
}

static bool same(piece a, piece b)
{
    return piece_len(a) == piece_len(b) && !memcmp(a.at, b.at, piece_len(a));
}

/* Drops what stands far before the first difference, so that a message shows
   it even in a long line. */
static void skip_equal(piece *a, piece *b)
{
    size_t n = 0;

    while (a->at + n < a->end && b->at + n < b->end && a->at[n] == b->at[n])
        n++;
    if (n > SHOWN_BEFORE &&
        (piece_len(*a) > SHOWN_MAX || piece_len(*b) > SHOWN_MAX)) {
        a->at += n - SHOWN_BEFORE;
        b->at += n - SHOWN_BEFORE;
    }
}

static fl_status differ(size_t line, piece mine, piece theirs)
{
    skip_equal(&mine, &theirs);
    FL_FAIL(FL_ERR_INVAL,
            "the declarations differ in line %zu: '%.*s' was declared first, "
            "'%.*s' came now; all trainers must declare the same, in the same "
            "order",
            line, shown_len(mine), mine.at, shown_len(theirs), theirs.at);
}

fl_status fl_declaration_compare(const char *mine, const char *theirs)
{
    piece a = { mine, mine + strlen(mine) };
    piece b = { theirs, theirs + strlen(theirs) };

    for (size_t line = 1; a.at < a.end || b.at < b.end; line++) {
        piece x = cut_line(&a), y = cut_line(&b);

        if (!same(x, y))
            return differ(line, x, y);
    }
    return FL_OK;
}
