/* session.h - one context with one program made from text: built line by
 * line, fed, run, looked into. */
#ifndef GOLDEN_SESSION_H
#define GOLDEN_SESSION_H

#include "flotilla/flotilla.h"
#include "golden.h"

typedef struct session {
    golden_case *c;
    fl_ctx *ctx;
    fl_executor *executor;
    fl_program *program; /* NULL before it is built */
    text lines;          /* of the program */
    fl_feed *feeds;
    size_t n_feeds;
    const char **fetches;
    size_t n_fetches;
    fl_tensor *fetched; /* after a run, by the index of the fetch */
} session;

/* False, with the failure reported, when there is no context. */
bool session_open(session *s, golden_case *c);
void session_close(session *s);

/* Adds a line "var NAME : f32[2,3] WORDS" that fits the tensor. */
void session_declare(session *s, const char *name, const fl_tensor *t,
                     const char *words);

/* Declares a variable and feeds it in every run. */
void session_feed(session *s, const char *name, const fl_tensor *t);

/* Declares a variable of the scope with a value. */
bool session_keep(session *s, const char *name, const fl_tensor *t);

/* Asks for a variable; the index of its value in `fetched`. */
size_t session_fetch(session *s, const char *name);

/* These report what fails. A program that is to be trained is the default
   one, to which schedules and constant rates belong; others stand alone. */
bool session_build(session *s);
bool session_build_main(session *s);
bool session_startup(session *s); /* the default startup program */
bool session_run(session *s);
bool session_set(session *s, const char *name, const fl_tensor *t);
bool session_get(session *s, const char *name, fl_tensor *out);

/* "f32[2,3]". */
const char *type_text(pool *p, fl_dtype dtype, int rank, const int64_t *dims);

#endif
