/* sink.h - where a record goes: a descriptor per kind of file.
 *
 * Each function gets the moment in seconds since 1970 and returns 0 or errno; the
 * record calls one at a time. NULL: the kind has no use for it.
 */
#ifndef FL_RECORD_SINK_H
#define FL_RECORD_SINK_H

#include "record/record.h"

/* The rate since the numbers before: samples per second, NaN: not known. */
typedef struct fl_record_numbers {
    const fl_record_pass *pass;
    double rate;
} fl_record_numbers;

typedef struct fl_record_file {
    int fd;
    char *path;
} fl_record_file;

typedef struct fl_record_sink {
    bool is_for_curves; /* of no use to who has none */
    /* The folder as the settings say; "": this sink is not asked for. */
    const char *(*folder)(const fl_conf *conf);
    /* The file's path in it, freed with fl_free; makes folders within. */
    fl_status (*name)(const char *folder, const char *who, double now,
                      char **path);
    int (*begin)(const fl_record_file *f, const fl_record_start *a, double now);
    int (*pass)(const fl_record_file *f, const fl_record_numbers *n,
                double now);
    int (*number)(const fl_record_file *f, const char *name, uint64_t step,
                  double value, double now);
    int (*note)(const fl_record_file *f, const char *name, const char *text,
                double now);
    int (*server)(const fl_record_file *f, const char *json, double now);
    int (*end)(const fl_record_file *f, double now);
} fl_record_sink;

extern const fl_record_sink fl_record_lines; /* lines.c */
extern const fl_record_sink fl_record_board; /* board.c */

/* A folder that is there, or is made; its parent must be. */
FL_MUST_CHECK
fl_status fl_record_folder(const char *path);

#endif
