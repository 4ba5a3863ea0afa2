// score.cpp - scores a batch from C++ with the model that click.c has saved.
//
//     score DIR
//
// It needs predict.h and libflotilla-predict.a alone.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "flotilla/predict.h"

int main(int argc, char **argv)
{
    // What three users have seen, what each is shown, and its price.
    std::vector<std::int64_t> seen = { 2, 4, 3, 8 }, offsets = { 0, 2, 3, 4 };
    std::vector<std::int64_t> shown = { 6, 6, 7 };
    std::vector<float> price = { 0.2f, 0.2f, 0.9f };
    const std::int64_t n = 3;
    fl_model *model = nullptr;
    fl_predictor *predictor = nullptr;
    fl_tensor score;

    if (argc != 2) {
        std::fprintf(stderr, "usage: score DIR\n");
        return 2;
    }
    const fl_feed feeds[] = {
        { "seen",
          fl_tensor_ragged(FL_DTYPE_I64, seen.data(), 2,
                           FL_ARRAY(std::int64_t, 4, 1), offsets.data(), n) },
        { "shown", fl_tensor_of(FL_DTYPE_I64, shown.data(), 2,
                                FL_ARRAY(std::int64_t, n, 1)) },
        { "price", fl_tensor_of(FL_DTYPE_F32, price.data(), 2,
                                FL_ARRAY(std::int64_t, n, 1)) },
    };
    if (fl_model_open_with(&model, argv[1], nullptr) ||
        fl_predictor_new(&predictor, model) ||
        fl_predictor_run(predictor, feeds, 3, &score, 1)) {
        std::fprintf(stderr, "score: %s\n", fl_last_error());
        return 1;
    }
    for (std::int64_t i = 0; i < n; i++)
        std::printf("%.4f\n", static_cast<const float *>(score.data)[i]);
    fl_predictor_free(predictor);
    fl_model_close(model);
    return 0;
}
