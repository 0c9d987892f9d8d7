#include "classify_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kept.h"
#include "progress.h"
#include "session_results.h"

void classify_set_image(struct classify *self, int32_t index, const struct input *input, rvit_session *session)
{
    self->images[index] = (struct report_image){.path = input->path,
                                                .tile = input->tile,
                                                .frame = input->frame,
                                                .position = input->position,
                                                .expected = -1,
                                                .session = session,
                                                .index = index};
    if (self->expected)
        self->images[index].expected = self->expected[input->position];
}

void classify_fill_mask(struct classify *self, int32_t n, rvit_run_args *run)
{
    if (!self->mask.keep)
        return;
    mask_fill(&self->mask, self->positions, n, self->engine.model_info.n_prefix, self->keep);
    run->keep = self->keep;
}

/* The stage that dropped each patch of image 0, counted from 1, or 0 for kept patches. NULL if out of memory. */
static uint8_t *find_dropped(const rvit_session *session, const rvit_model_info *info, int32_t lines, int32_t columns)
{
    const int32_t n_patches = lines * columns;
    uint8_t *dropped_at = allocate((size_t)n_patches, 1);
    for (int32_t s = session_n_stages(session) - 1; dropped_at && s >= 0; s--) {
        const int32_t *cu_seqlens = session_cu_seqlens(session, s), *kept = session_kept(session, s, 0);
        uint8_t *next = allocate((size_t)n_patches, 1);
        if (!next || !cu_seqlens || !kept) {
            free(next);
            free(dropped_at);
            return NULL;
        }
        /* Later stages decide about the patches that this stage keeps; it drops the others. */
        memset(next, s + 1, (size_t)n_patches);
        for (int32_t i = 0; i < cu_seqlens[1] - cu_seqlens[0]; i++)
            if (kept[i] >= info->n_prefix) {
                const int32_t patch = kept_patch(info, columns, kept[i]);
                next[patch] = dropped_at[patch];
            }
        free(dropped_at);
        dropped_at = next;
    }
    return dropped_at;
}

int classify_overlay(struct classify *self, const rvit_session *session, struct image *image, int32_t target_width, int32_t target_height)
{
    const double begin = now();
    const int32_t patch_size = self->engine.model_info.patch_size;
    rvit_image source = preprocess_source(image_whole(image));
    rvit_image_geometry geometry = RVIT_IMAGE_GEOMETRY_INIT;
    struct image_error error;
    source.target_width = target_width;
    source.target_height = target_height;
    if (!preprocess_image(&self->recipe, &source, NULL, &geometry, &error)) {
        image_free(image);
        return fail_with(EXIT_FAULT, self->options->overlay, "%s", error.text);
    }
    const int32_t lines = geometry.target_height / patch_size, columns = geometry.target_width / patch_size;
    if (rvit_session_image_status(session, 0) != RVIT_OK) {
        complain(self->options->overlay, "is not written: the first image could not be computed");
        image_free(image);
        return EXIT_PARTLY;
    }
    uint8_t *dropped_at = find_dropped(session, &self->engine.model_info, lines, columns);
    const struct overlay overlay = {.image = image,
                                    .geometry = geometry,
                                    .columns = columns,
                                    .rows = lines,
                                    .patch_size = patch_size,
                                    .dropped_at = dropped_at,
                                    .n_stages = session_n_stages(session)};
    const bool ok = dropped_at && overlay_write(self->options->overlay, &overlay, &error);
    if (dropped_at && !ok)
        complain(self->options->overlay, "%s", error.text);
    image_free(image);
    self->report.has_overlay = ok;
    self->report.start += now() - begin; /* drawing does not count for the speed */
    const int code = ok ? EXIT_OK : dropped_at ? EXIT_PARTLY : EXIT_FAULT;
    free(dropped_at);
    return code;
}

/* Records the images without a result before printing any, because failures are printed in order of position. */
static bool note_failures(struct classify *self, const rvit_session *session, int32_t n)
{
    bool ok = true;
    for (int32_t i = 0; i < n && ok; i++) {
        struct report_image *image = &self->images[i];
        image->is_bad = rvit_session_image_status(session, i) != RVIT_OK;
        if (!image->is_bad)
            continue;
        const struct input input = {image->path, image->tile, image->frame, image->position};
        const char *detail = rvit_status_detail(), *why = strncmp(detail, "image ", 6) == 0 ? strstr(detail, ": ") : NULL;
        char text[512];
        why = why ? why + 2 : detail; /* without the number of the image in its batch */
        if (image->tile >= 0 || image->frame >= 0)
            snprintf(text, sizeof text, "%s %lld: %s", image->tile >= 0 ? "tile" : "frame",
                     image->tile >= 0 ? (long long)image->tile : (long long)image->frame, why);
        else
            snprintf(text, sizeof text, "%s", why);
        ok = inputs_note_failure(&self->inputs, &input, text);
    }
    return ok;
}

int classify_report(struct classify *self, const rvit_session *session, int32_t n)
{
    if (!note_failures(self, session, n))
        return EXIT_FAULT;
    const int32_t n_classes = self->report.n_classes, *whole = session_cu_seqlens(session, -1);
    const float *logits = self->report.texts ? self->scores : session_floats(session, RVIT_RESULT_LOGITS);
    for (int32_t i = 0; i < n && self->report.texts; i++)
        zero_shot_score(&self->texts, session_floats(session, RVIT_RESULT_PROJECTED) + (int64_t)i * self->texts.width,
                        self->scores + (int64_t)i * n_classes);
    for (int32_t i = 0; i < n; i++) {
        struct report_image *image = &self->images[i];
        if (image->is_bad)
            continue;
        image->logits = n_classes > 0 ? logits + (int64_t)i * n_classes : NULL;
        image->tokens = whole[i + 1] - whole[i];
        for (int32_t s = 0; s < self->report.n_stages; s++) {
            const int32_t *cu_seqlens = session_cu_seqlens(session, s);
            image->tokens_kept[s] = cu_seqlens[i + 1] - cu_seqlens[i];
        }
        report_add(&self->report, &self->inputs, image);
    }
    const int added = self->options->features ? feature_file_add(&self->features, session, n) : EXIT_OK;
    report_flush(&self->report);
    return added;
}

int classify_waited(rvit_status status)
{
    return status == RVIT_OK || is_of_images(status) ? EXIT_OK : complain_status(NULL, status);
}
