/* doctor.h - what the parts of `flotilla doctor` share: one line per
   finding. */
#ifndef FL_CMD_DOCTOR_H
#define FL_CMD_DOCTOR_H

#include "cmd.h"

typedef enum doctor_grade { DOCTOR_OK, DOCTOR_WARN, DOCTOR_BAD } doctor_grade;

typedef struct doctor {
    int n_warn, n_bad;
} doctor;

/* "ok    open files     1024 at a time", and behind a line that is not ok the
   next step. */
void doctor_say(doctor *d, doctor_grade grade, const char *what,
                const char *next, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The first line of a file without its newline; "" when it cannot be read. */
void doctor_read_line(const char *path, char *out, size_t cap);

/* The parts. */
void doctor_library(doctor *d);
void doctor_machine(doctor *d);
void doctor_places(doctor *d);
void doctor_clock(doctor *d);
void doctor_job(doctor *d, fl_ctx *c);

#endif
