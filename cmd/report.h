/* report.h - the record of a run, read, and the parts of the page that shows it.
 *
 * A run is a folder with a file per process (docs/formats/record.md). Owner
 * thread only.
 */
#ifndef FL_CMD_REPORT_H
#define FL_CMD_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include <cjson/cJSON.h>

/* Lines of one process, from the last start on that began something new. */
typedef struct process {
    char *who;
    cJSON *lines; /* an array */
    bool is_server;
} process;

typedef struct run {
    const char *dir;
    const char *name; /* how the page calls it */
    process *all;     /* workers, then servers, by number */
    size_t n;
    double began, ended; /* the first line of anybody, and the last */
} run;

/* CMD_OK, or CMD_FAILED after saying what is wrong; released in either case. */
int run_read(const char *self, const char *dir, run *out);
void run_release(run *r);

/* --- looking into lines ---------------------------------------------------- */

bool line_is(const cJSON *line, const char *type);
/* NaN when there is none. */
double line_number(const cJSON *line, const char *key);
/* "" when there is none. */
const char *line_text(const cJSON *line, const char *key);
/* Of the first line of the process. */
const cJSON *process_begin(const process *p);
/* The last line of a type, and of a phase unless that is NULL; NULL: none. */
const cJSON *process_last(const process *p, const char *type,
                          const char *phase);

/* --- where the time went ---------------------------------------------------- */

enum {
    SPENT_TRAIN,
    SPENT_INPUT,
    SPENT_PEERS,
    SPENT_TEST,
    SPENT_OTHER,
    N_SPENT
};
typedef struct spent {
    double seconds[N_SPENT];
    double total, samples; /* samples that were trained */
} spent;
extern const char *const spent_names[N_SPENT];
spent process_spent(const process *p);

/* --- the page -------------------------------------------------------------- */

/* One run, or two side by side. */
void report_head(FILE *out, const run *runs, size_t n);
void report_summary(FILE *out, const run *runs, size_t n);
/* False without memory for the curves. */
bool report_curves(FILE *out, const run *runs, size_t n);
void report_time(FILE *out, const run *r);
void report_workers(FILE *out, const run *r);
void report_servers(FILE *out, const run *r);
void report_passes(FILE *out, const run *r);
void report_settings(FILE *out, const run *runs, size_t n);
void report_tail(FILE *out);

#endif
