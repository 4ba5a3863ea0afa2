/* split.h - files of lines, cut into parts. Experimental: it may change with
 * any version.
 */
#ifndef FLOTILLA_EXPERIMENTAL_SPLIT_H
#define FLOTILLA_EXPERIMENTAL_SPLIT_H

#include "flotilla/data.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FL_SPLIT_PARTS_MAX 64

/* A part: the file that it is written to, compressed when its name ends with
   .gz, and its share of what there is. */
typedef struct fl_split_part {
    const char *path;
    double share;     /* above 0; those of all parts make 1 */
    uint64_t n_lines; /* that it got */
} fl_split_part;

/* What decides. At most one of key, time and by_file is given; without one, the
   bytes of a line do. */
typedef struct fl_split_args {
    uint32_t size;
    const char *format; /* of the lines; NULL: nobody looks into them */
    /* A column or slot: lines of one value are in one part, the one that
       split=LO-HI,key=KEY of a data set has them in. */
    const char *key;
    /* A slot of ids or floats: the parts follow each other in time, and lines
       of one time are in one part. */
    const char *time;
    bool by_file; /* the first files are the first part, and so on */
    bool header;  /* the first line of each file is one, and of each part */
    const char *pipe_command; /* as fl_dataset_set_pipe_command */
} fl_split_args;

/* Writes every line of the files to one of the parts, byte by byte as it is; a
   header to all of them. Files are there whole or not at all. */
#define fl_split_files(paths, n_paths, parts, n_parts, ...)                    \
    fl_split_files_with(paths, n_paths, parts, n_parts,                        \
                        FL_OPTIONS(fl_split_args, __VA_ARGS__))
FL_API FL_MUST_CHECK
fl_status fl_split_files_with(const char *const *paths, size_t n_paths,
                              fl_split_part *parts, size_t n_parts,
                              const fl_split_args *args);

#ifdef __cplusplus
}
#endif
#endif
