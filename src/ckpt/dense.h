/* dense.h - dense variables of a version: named tensors in a safetensors file,
 * under their own names, types and shapes. */
#ifndef FL_CKPT_DENSE_H
#define FL_CKPT_DENSE_H

#include "ckpt/version.h"

#define FL_DENSE_FILE "dense.safetensors"

typedef struct fl_named_tensor {
    const char *name;
    fl_tensor value; /* dense */
} fl_named_tensor;

/* Writes them into a file of the version and notes it in the manifest. */
FL_MUST_CHECK
fl_status fl_dense_save(const fl_model_version *v, fl_manifest *m,
                        const char *file, const fl_named_tensor *tensors,
                        size_t n);

/* What both shapes have, which are of one rank; the rest of `to` stays. */
void fl_dense_copy(const fl_tensor *to, const void *from,
                   const fl_shape *from_shape);

/* Copies a tensor of a file that fl_version_map gave; its sum is compared
   first. The type is the same; of another shape of the same rank what both have
   is copied, the rest of `to` stays. */
FL_MUST_CHECK
fl_status fl_dense_load(const fl_st_file *f, const fl_st_tensor *from,
                        const fl_tensor *to);

#endif
