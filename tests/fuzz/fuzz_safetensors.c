/* fuzz_safetensors.c - bytes as a safetensors file: refused, or read, and what
 * is read lies in the file, aligned, and covers it.
 *
 * The first byte chooses. 0: the rest is the file. Else the rest is the header,
 * to which its length and so many bytes of data are added. */
#include "kit.h"

#include "ckpt/safetensors.h"

static void write_with_header(const uint8_t *header, size_t n, size_t n_data)
{
    unsigned char *file = fl_alloc(8 + n + n_data);

    for (size_t i = 0; i < 8; i++)
        file[i] = (unsigned char)(n >> (8 * i));
    memcpy(file + 8, header, n);
    kit_write(file, 8 + n + n_data);
    fl_free(file);
}

/* Reads every byte of every tensor. */
static uint64_t read_all(const fl_st_file *f, uint64_t *sum)
{
    uint64_t bytes = 0;

    for (size_t i = 0; fl_st_at(f, i); i++) {
        const fl_st_tensor *t = fl_st_at(f, i);
        const unsigned char *at = fl_st_bytes(f, t);

        MUST(fl_st_find(f, t->name) == t);
        MUST((uintptr_t)at % fl_st_type_bytes(t->type) == 0);
        for (uint64_t k = 0; k < t->bytes; k++)
            *sum += at[k];
        bytes += t->bytes;
    }
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_st_file *f = NULL;
    uint64_t sum = 0;

    if (size < 1)
        return 0;
    if (data[0])
        write_with_header(data + 1, size - 1, data[0]);
    else
        kit_write(data + 1, size - 1);
    if (!fl_st_open(&f, kit_path()))
        MUST(read_all(f, &sum) < fl_st_file_bytes(f));
    fl_st_close(f);
    return 0;
}
