/* table_map.cpp - rows in std::unordered_map: what a first attempt would use.
 * The only C++ of the project, and only here to be measured against. */
#include "table_peers.h"

#include <cstring>
#include <unordered_map>
#include <vector>

namespace
{

struct map_table {
    std::unordered_map<uint64_t, std::vector<float>> rows;
    size_t n_floats;
};

map_table *of(void *table)
{
    return static_cast<map_table *>(table);
}

void *map_open(const table_shape *s)
{
    return new map_table{ {}, s->n_floats };
}

void map_add(void *table, const uint64_t *keys, const float *values, size_t n)
{
    map_table *t = of(table);

    for (size_t i = 0; i < n; i++) {
        std::vector<float> &row = t->rows[keys[i]];

        row.resize(t->n_floats);
        std::memcpy(row.data(), values + i * TABLE_DIM,
                    TABLE_DIM * sizeof(float));
    }
}

void map_pull(void *table, const table_batch *b, float *out)
{
    const map_table *t = of(table);

    for (size_t i = 0; i < b->n; i++, out += TABLE_DIM)
        std::memcpy(out, t->rows.find(b->keys[i])->second.data(),
                    TABLE_DIM * sizeof(float));
}

void map_push(void *table, const table_batch *b)
{
    map_table *t = of(table);

    for (size_t i = 0; i < b->n; i++)
        adam_row(t->rows.find(b->keys[i])->second.data(),
                 b->grads + i * TABLE_DIM, b->rate);
}

void map_close(void *table)
{
    delete of(table);
}

} // namespace

const table_kind table_unordered_map = { "unordered_map", map_open, map_add,
                                         map_pull,        map_push, map_close };
