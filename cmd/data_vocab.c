/* data_vocab.c - flotilla data vocab: the words of text files. */
#include "data.h"

#include <inttypes.h>
#include <stdio.h>

int data_vocab(const data_args *a)
{
    uint64_t n = 0;

    if (!a->out)
        return cmd_misused(a->self, "vocab needs -o FILE");
    if (fl_vocabulary_build(a->files, a->n_files, a->out, &n,
                            .min_count = a->min_count, .unknown = true,
                            .pipe_command = a->pipe))
        return cmd_failed(a->self, "%s", fl_last_error());
    fprintf(stderr, "%" PRIu64 " words\n", n);
    return CMD_OK;
}
