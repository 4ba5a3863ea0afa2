/* import.h - between the files that import models. Owner thread only. */
#ifndef FL_API_IMPORT_H
#define FL_API_IMPORT_H

#include "ckpt/version.h"
#include "paddle18/model.h"

/* Rows by id (SelectedRows) become the table of that name in the version. */
FL_MUST_CHECK
fl_status fl_import_rows(const fl_model_version *v, fl_manifest *m,
                         const fl_p18_var *rows);

#endif
