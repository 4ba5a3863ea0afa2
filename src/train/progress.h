/* progress.h - how far a pass over the data is, for people.
 *
 * On a terminal one line that is written over once a second; in a file a line
 * every ten seconds. Without a stream nothing is shown.
 */
#ifndef FL_TRAIN_PROGRESS_H
#define FL_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What is known at a moment; loss and auc may be NaN. */
typedef struct fl_progress_state {
    uint64_t samples, total; /* total 0: not known */
    double seconds;
    double wait_share; /* of the training threads' time, for input */
    double loss, auc;
} fl_progress_state;

typedef struct fl_progress {
    FILE *stream;
    bool is_terminal;
    double last_seconds; /* when it was shown last */
    int last_width;      /* of the line on the terminal */
} fl_progress;

void fl_progress_init(fl_progress *p, FILE *stream);

/* Shows it if it is time to. */
void fl_progress_show(fl_progress *p, const fl_progress_state *s);

/* The last line stays. */
void fl_progress_end(fl_progress *p, const fl_progress_state *s);

/* The line itself, for example
     1.20M samples, 58.1k/s, loss 0.4512, AUC 0.7811, 43 %, 0:35 left */
void fl_progress_line(const fl_progress_state *s, bool is_last, char *out,
                      size_t cap);

#endif
