#include "image_reader.h"

bool image_reader_create(struct image_reader *input, int32_t width, int32_t height)
{
    if (input->size_only) {
        input->result = (struct image){width, height, NULL};
        return image_check_size(width, height, input->error);
    }
    if (!input->taker || input->orientation != 1) /* images to be turned are handed over later */
        return image_create(width, height, &input->result, input->error);
    if (!image_check_size(width, height, input->error))
        return false;
    uint8_t *pixels = input->taker->take(input->taker->user, width, height, input->error);
    input->result = (struct image){width, height, pixels};
    input->is_taken = pixels != NULL;
    return input->is_taken;
}
