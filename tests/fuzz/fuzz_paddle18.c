/* fuzz_paddle18.c - bytes as what PaddlePaddle 1.8 saved. The first byte
 * chooses: 0 a program, 1 a variable, 2 rows of a table. They are refused, or
 * read to what lies within them: a program that was read prints and parses
 * back. */
#include "kit.h"

#include "ops/ops.h"
#include "paddle18/program.h"
#include "paddle18/values.h"

/* A message takes a fixed multiple of its bytes, and a little. */
#define MEMORY_PER_BYTE 256
#define MEMORY_MIN ((size_t)256 << 10)

static void check_program(const fl_program *p)
{
    char *text = fl_program_print(p), *again;
    fl_program *parsed = NULL;

    MUST(!fl_program_parse(text, &fl_ops, &parsed));
    again = fl_program_print(parsed);
    MUST(!strcmp(text, again));
    fl_program_free(parsed);
    fl_free(again);
    fl_free(text);
}

static void fuzz_program(const uint8_t *data, size_t size)
{
    fl_p18_program_desc desc = { 0 };
    fl_p18_program p = { 0 };
    size_t before = fl_data_bytes();
    fl_arena arena;

    fl_arena_init(&arena, 4096);
    if (!fl_wire_read(&fl_p18_program_message, data, size, &arena, &desc)) {
        MUST(fl_data_bytes() - before < MEMORY_MIN + size * MEMORY_PER_BYTE);
        if (!fl_p18_translate(&desc, &fl_ops, &p))
            check_program(p.program);
        fl_p18_program_release(&p);
    }
    fl_arena_release(&arena);
}

typedef fl_status (*read_fn)(fl_p18_bytes *b, const char *name, fl_arena *arena,
                             fl_p18_value *out);

static void fuzz_value(read_fn read, const uint8_t *data, size_t size)
{
    fl_p18_bytes b = { data, data, data + size };
    fl_p18_value v;
    fl_arena arena;

    fl_arena_init(&arena, 4096);
    if (!read(&b, "v", &arena, &v)) {
        const uint8_t *values = v.tensor.data;

        MUST(b.at <= b.end && values >= data && v.n_bytes <= size);
        MUST(values + v.n_bytes <= b.end);
        MUST((size_t)fl_tensor_numel(&v.tensor) *
                 fl_dtype_bytes(v.tensor.dtype) ==
             v.n_bytes);
    } else {
        MUST(b.at == data);
    }
    fl_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    if (!size)
        return 0;
    copy = fl_alloc(size); /* ends where the input does */
    memcpy(copy, data + 1, size - 1);
    if (*data % 3 == 0)
        fuzz_program(copy, size - 1);
    else
        fuzz_value(*data % 3 == 1 ? fl_p18_read_tensor : fl_p18_read_rows, copy,
                   size - 1);
    fl_free(copy);
    return 0;
}
