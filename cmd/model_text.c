/* model_text.c - what is in a model, as text; and opening one. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>

int model_open(const char *self, const char *path, model_file *out)
{
    *out = (model_file){ 0 };
    if (fl_ctx_new(&out->ctx) || fl_saved_open(&out->saved, out->ctx, path))
        return cmd_failed(self, "%s", fl_last_error());
    return CMD_OK;
}

void model_close(model_file *m)
{
    fl_saved_close(m->saved);
    fl_ctx_free(m->ctx);
    *m = (model_file){ 0 };
}

const char *model_type_text(const fl_tensor *t, char buf[MODEL_TEXT_MAX])
{
    int n = snprintf(buf, MODEL_TEXT_MAX, "%s[", fl_dtype_text(t->dtype));

    for (int i = 0; i < t->shape.rank; i++)
        n += snprintf(buf + n, (size_t)(MODEL_TEXT_MAX - n), "%s%" PRId64,
                      i ? "," : "", t->shape.dim[i]);
    (void)snprintf(buf + n, (size_t)(MODEL_TEXT_MAX - n), "]");
    return buf;
}

const char *model_number_text(const fl_tensor *t, int64_t i,
                              char buf[MODEL_TEXT_MAX])
{
    switch (t->dtype) {
    case FL_DTYPE_F32:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%.9g",
                       (double)((const float *)t->data)[i]);
        break;
    case FL_DTYPE_F64:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%.17g",
                       ((const double *)t->data)[i]);
        break;
    case FL_DTYPE_I32:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%" PRId32,
                       ((const int32_t *)t->data)[i]);
        break;
    case FL_DTYPE_I64:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%" PRId64,
                       ((const int64_t *)t->data)[i]);
        break;
    case FL_DTYPE_U64:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%" PRIu64,
                       ((const uint64_t *)t->data)[i]);
        break;
    case FL_DTYPE_F16:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%.5g",
                       (double)fl_half_value(((const uint16_t *)t->data)[i]));
        break;
    case FL_DTYPE_I16:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%d",
                       ((const int16_t *)t->data)[i]);
        break;
    case FL_DTYPE_I8:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%d", ((const int8_t *)t->data)[i]);
        break;
    case FL_DTYPE_U8:
    case FL_DTYPE_BOOL:
        (void)snprintf(buf, MODEL_TEXT_MAX, "%u",
                       (unsigned)((const uint8_t *)t->data)[i]);
        break;
    }
    return buf;
}

const char *model_place_text(const fl_tensor *t, int64_t i,
                             char buf[MODEL_TEXT_MAX])
{
    int64_t rest = fl_tensor_numel(t);
    int n = snprintf(buf, MODEL_TEXT_MAX, "[");

    for (int k = 0; k < t->shape.rank; k++) {
        rest /= t->shape.dim[k];
        n += snprintf(buf + n, (size_t)(MODEL_TEXT_MAX - n), "%s%" PRId64,
                      k ? "," : "", i / rest);
        i %= rest;
    }
    (void)snprintf(buf + n, (size_t)(MODEL_TEXT_MAX - n), "]");
    return buf;
}

const char *model_bytes_text(uint64_t bytes, char buf[MODEL_TEXT_MAX])
{
    static const char *const units[] = { "bytes", "KB", "MB", "GB", "TB" };
    double n = (double)bytes;
    size_t unit = 0;

    while (n >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
        n /= 1024;
        unit++;
    }
    (void)snprintf(buf, MODEL_TEXT_MAX, unit ? "%.1f %s" : "%.0f %s", n,
                   units[unit]);
    return buf;
}
