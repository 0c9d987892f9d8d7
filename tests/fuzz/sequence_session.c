/* The sessions of the target `sequence`. */
#include "sequence.h"

#include <stdio.h>
#include <string.h>

#include <raggedvit/experimental.h>
#include "tools/cli/session_results.h"

/* A policy with valid parameters. */
static rvit_prune_desc prune_of(choices *c)
{
    rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
    desc.type = (rvit_prune_type)choose(c, RVIT_PRUNE_FASTERVLM + 2);
    if (desc.type == RVIT_PRUNE_MAP_PROBE) /* the model has no attention pooling */
        desc.type = RVIT_PRUNE_HIPRUNE;
    const uint8_t value = choose_byte(c), blocks = choose_byte(c) % 8;
    rvit_prune_info info = RVIT_PRUNE_INFO_INIT;
    for (int32_t i = 0; info.struct_size == 0 || i == 0 || info.type != desc.type; i++)
        REQUIRE(rvit_prune_list(i, &info) == RVIT_OK);
    if (info.parameters & RVIT_PRUNE_BLOCKS) {
        for (int32_t b = 0; b < DEPTH; b++)
            if (blocks >> b & 1)
                desc.blocks[desc.n_blocks++] = b;
        if (desc.n_blocks == 0 || desc.type == RVIT_PRUNE_HIPRUNE)
            desc.n_blocks = 1;
    }
    if (info.parameters & RVIT_PRUNE_KEEP && value % 2)
        desc.keep = (value >> 1) / 127.0;
    else if (info.parameters & RVIT_PRUNE_MASS)
        desc.mass = value / 255.0;
    if (info.parameters & RVIT_PRUNE_THRESHOLD)
        desc.threshold = value / 255.0;
    if (info.parameters & RVIT_PRUNE_SAMPLES)
        desc.n_samples = value % 8;
    if (info.parameters & RVIT_PRUNE_MERGES)
        desc.merges = value % 4;
    if (info.parameters & RVIT_PRUNE_SEED)
        desc.seed = value;
    if (info.parameters & RVIT_PRUNE_ALPHA)
        desc.alpha = (value & 15) / 15.0;
    if (info.parameters & RVIT_PRUNE_OBJECT_BLOCK)
        desc.object_block = value % (desc.blocks[0] + 1);
    return desc;
}

/* Makes one argument invalid; returns 0 if that is not possible. */
static int spoil(world *w, uint8_t how, session_slot *s, rvit_model **model)
{
    rvit_session_desc *desc = &s->desc;
    switch (how) {
    case 255:
        desc->max_images = 0;
        return 1;
    case 254:
        desc->max_images = (1 << 20) + 1;
        return 1;
    case 253:
        desc->outputs = 512;
        return 1;
    case 252:
        s->prune.type = (rvit_prune_type)(RVIT_PRUNE_PIXELPRUNE + 1);
        return 1;
    case 251:
        s->prune.keep = 1.5;
        return 1;
    case 250:
        s->prune.n_blocks = 1;
        s->prune.blocks[0] = DEPTH;
        return 1;
    case 249:
        s->prune.n_blocks = 2;
        s->prune.blocks[0] = s->prune.blocks[1] = 1;
        return 1;
    case 248:
        *model = NULL;
        return 1;
    case 247:
        desc->struct_size = 0;
        return 1;
    case 246:
        s->prune.struct_size = 0;
        return 1;
    case 245:
        for (int i = 0; i < N_STREAMS; i++)
            if (w->streams[i].it != NULL && *model != NULL && w->streams[i].device != s->stream->device) {
                desc->stream = w->streams[i].it;
                return 1;
            }
        return 0;
    default:
        return 0;
    }
}

/* Uses the buffer for images or logits if it is on the model's device. Returns whether it is large enough. */
static int take_buffer(buffer_slot *b, const model_slot *model, int64_t size, buffer_slot **out_taken, rvit_view *view)
{
    if (b->it == NULL || b->device != model->device)
        return 1;
    *out_taken = b;
    view->buffer = b->it;
    return b->size >= size;
}

void session_create(world *w)
{
    const uint8_t which = choose_byte(&w->c), options = choose_byte(&w->c), spoilt = choose_byte(&w->c);
    session_slot *slot = &w->sessions[which % N_SESSIONS];
    const model_slot *model = &w->models[which / N_SESSIONS % N_MODELS];
    session_slot s = {.desc = RVIT_SESSION_DESC_INIT};
    s.prune = prune_of(&w->c);
    s.desc.prune = &s.prune;
    if (slot->it != NULL)
        return;
    s.desc.max_images = 1 + options % MAX_IMAGES;
    s.desc.trace = options >> 1 & 1;
    /* Only two bits select the outputs, so that the inputs of the corpus keep their meaning. */
    s.desc.outputs = (options >> 2 & 1 ? RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_POOLED | RVIT_OUTPUT_BLOCK_FEATURES : 0) |
                     (options >> 3 & 1 ? RVIT_OUTPUT_CLS_ATTENTION | RVIT_OUTPUT_RECEIVED_ATTENTION : 0);
    s.desc.features_block = s.desc.received_block = spoilt % DEPTH;
    s.desc.fixed_batch = options >> 4 & 1;
    s.desc.dense_fallback = options >> 5 == 7 && spoilt % 16 == 0; /* rarely, because it takes as long as a dozen runs */
    stream_slot *stream = &w->streams[which / 8 % N_STREAMS];
    int works = model->it != NULL;
    if (which & 128 && stream->it != NULL && works && stream->device == model->device) {
        s.stream = stream;
        s.desc.stream = stream->it;
        works = !stream->recording;
    }
    if (options >> 5 & 1)
        works &= take_buffer(&w->buffers[0], model, (int64_t)s.desc.max_images * IMAGE * 4, &s.images, &s.desc.input_view);
    if (options >> 6 & 1)
        works &= take_buffer(&w->buffers[1], model, (int64_t)s.desc.max_images * CLASSES * 4, &s.logits, &s.desc.logits);
    rvit_model *given = model->it;
    if (spoilt > 245 || (spoilt == 245 && s.stream != NULL))
        works &= !spoil(w, spoilt, &s, &given);
    s.desc.input_memory = s.images != NULL ? RVIT_INPUT_FIXED : RVIT_INPUT_HOST;
    rvit_session *made = UNTOUCHED;
    rvit_memory_info memory = RVIT_MEMORY_INFO_INIT;
    const rvit_status wanted = works ? RVIT_OK : RVIT_INVALID_ARGUMENT;
    if (works)
        EXPECT(rvit_session_memory(given, &s.desc, &memory), RVIT_OK);
    if (!EXPECT(rvit_session_create(given, &s.desc, &made), wanted)) {
        REQUIRE(made == UNTOUCHED);
        return;
    }
    rvit_session_info info = RVIT_SESSION_INFO_INIT;
    EXPECT(rvit_session_get_info(made, &info), RVIT_OK);
    s.it = made;
    s.merges = s.prune.type == RVIT_PRUNE_TOME;
    s.n_stages = s.prune.type == RVIT_PRUNE_NONE || info.fell_back || (s.merges && s.prune.merges == 0) ? 0 : s.prune.n_blocks;
    s.masked = s.prune.type == RVIT_PRUNE_MASK;
    REQUIRE(info.n_stages == s.n_stages && session_n_stages(made) == s.n_stages);
    REQUIRE((rvit_session_input_memory(made, NULL) == NULL) == (s.images != NULL));
    if (s.images == NULL)
        memset(rvit_session_input_memory(made, NULL), 0, (size_t)s.desc.max_images * IMAGE * 4);
    if (s.stream != NULL)
        s.stream->users++;
    if (s.images != NULL)
        s.images->users++;
    if (s.logits != NULL)
        s.logits->users++;
    *slot = s;
}

void session_destroy(session_slot *s)
{
    rvit_session_destroy(s->it);
    if (s->stream != NULL)
        s->stream->users--;
    if (s->images != NULL)
        s->images->users--;
    if (s->logits != NULL)
        s->logits->users--;
    memset(s, 0, sizeof *s);
}

/* There are N_KINDS images, so that equal ones occur in different batches: 0..3 are valid, 4 has huge values, 5 has NaN. */
static void fill_image(int kind, float *image)
{
    uint32_t random = (uint32_t)kind + 1;
    for (int i = 0; i < IMAGE; i++) {
        random = random * 1664525u + 1013904223u;
        const uint32_t nan = 0x7fc00000;
        image[i] = (float)(random >> 16) / 32768 - 1;
        if (kind == 4)
            image[i] *= 1e38f;
        else if (kind == 5)
            memcpy(&image[i], &nan, sizeof nan);
    }
}

/* Prepares the args of a run, and returns whether it must be accepted. */
static int prepare(world *w, session_slot *s, rvit_run_args *args, int kinds[MAX_IMAGES], int *unsure)
{
    static float images[MAX_IMAGES * IMAGE];
    static uint8_t keep[RVIT_PRUNE_MAX_STAGES * MAX_IMAGES * TOKENS];
    const uint8_t what = choose_byte(&w->c), how = choose_byte(&w->c);
    *args = (rvit_run_args)RVIT_RUN_ARGS_INIT;
    args->n_images = how % 4 == 3 ? s->desc.max_images + how / 4 % 2 * 2 - 1 : how % 4 == 2 ? 1 : s->desc.max_images;
    if (how >> 4 == 15)
        args->n_images = how % 2 ? INT32_MIN : INT32_MAX;
    const int in_range = args->n_images >= 0 && args->n_images <= s->desc.max_images;
    int drops_prefix = 0;
    *unsure = s->images != NULL;
    for (int i = 0; i < MAX_IMAGES; i++) {
        const int kind = what >> i * 4 & 15;
        kinds[i] = kind < 12 ? kind % 4 : kind < 14 ? 4 : 5;
        fill_image(kinds[i], &images[i * IMAGE]);
        if (in_range && i < args->n_images)
            *unsure |= kinds[i] >= 4;
    }
    /* The mask of an image depends only on its kind. */
    for (int32_t stage = 0; stage < s->n_stages && in_range; stage++)
        for (int32_t i = 0; i < args->n_images; i++)
            for (int32_t t = 0; t < TOKENS; t++)
                keep[(stage * args->n_images + i) * TOKENS + t] = t == 0 || (kinds[i] + stage + t) % 3 != 0;
    if (how >> 4 == 14 && s->masked && in_range && args->n_images > 0) {
        keep[0] = 0;
        drops_prefix = 1;
    }
    args->input.data = s->images != NULL && how >> 4 != 13 ? NULL : images;
    args->keep = s->masked != (how >> 4 == 12) ? keep : NULL;
    if (s->masked && args->keep == NULL && args->n_images == 0)
        args->keep = keep;
    if (how >> 4 == 11)
        args->struct_size = 0;
    const int hands_over = s->masked || !s->desc.fixed_batch || s->images == NULL;
    return s->it != NULL && how >> 4 != 11 && in_range && !(s->pending && hands_over) &&
           !(s->desc.fixed_batch && args->n_images != s->desc.max_images) && !(args->input.data != NULL && s->images != NULL) &&
           (args->keep != NULL) == s->masked && !drops_prefix && !(s->stream != NULL && s->stream->recording);
}

static void enqueued(session_slot *s, const rvit_run_args *args, const int kinds[MAX_IMAGES], int unsure)
{
    s->unsure = s->pending ? s->unsure | unsure : unsure;
    s->pending = 1;
    s->has_results = 0;
    s->n_images = args->n_images;
    for (int i = 0; i < MAX_IMAGES; i++)
        s->kinds[i] = s->images == NULL ? kinds[i] : -1;
    if (s->logits != NULL)
        memset(s->logits->known, 0, (size_t)s->desc.max_images * CLASSES * 4);
}

/* Equal images have logits with equal bits in any batch. */
static void check_logits(session_slot *s)
{
    const float *logits = session_floats(s->it, RVIT_RESULT_LOGITS);
    REQUIRE((logits != NULL) == (s->logits == NULL));
    for (int32_t i = 0; i < s->n_images && logits != NULL; i++) {
        const int kind = s->kinds[i];
        if (kind < 0 || kind >= 4)
            continue;
        if (s->seen[kind] && memcmp(s->logits_of[kind], logits + i * CLASSES, sizeof s->logits_of[kind]) != 0)
            fuzz_fail("the logits of an image differ from those of an earlier run");
        s->seen[kind] = 1;
        memcpy(s->logits_of[kind], logits + i * CLASSES, sizeof s->logits_of[kind]);
    }
}

static void waited(session_slot *s, rvit_status status)
{
    s->pending = 0;
    int32_t n_failed = 0;
    for (int32_t image = 0; image < s->n_images; image++)
        n_failed += rvit_session_image_status(s->it, image) != RVIT_OK;
    if (s->unsure && (status == RVIT_INVALID_ARGUMENT || status == RVIT_NOT_FINITE)) {
        REQUIRE(n_failed > 0);
        s->has_results = 1;
        return;
    }
    REQUIRE(n_failed == 0);
    if (!expect_given(status, RVIT_OK, "waiting for a run"))
        return;
    s->has_results = 1;
    check_logits(s);
}

void session_enqueue(world *w)
{
    session_slot *s = &w->sessions[choose(&w->c, N_SESSIONS)];
    rvit_run_args args;
    int kinds[MAX_IMAGES], unsure;
    const int works = prepare(w, s, &args, kinds, &unsure);
    if (EXPECT(rvit_session_enqueue(s->it, &args), works ? RVIT_OK : RVIT_INVALID_ARGUMENT))
        enqueued(s, &args, kinds, unsure);
}

void session_wait(world *w)
{
    session_slot *s = &w->sessions[choose(&w->c, N_SESSIONS)];
    if (s->pending)
        waited(s, expect_status_of(rvit_session_wait(s->it)));
    else
        EXPECT(rvit_session_wait(s->it), RVIT_INVALID_ARGUMENT);
}

void session_run(world *w)
{
    session_slot *s = &w->sessions[choose(&w->c, N_SESSIONS)];
    rvit_run_args args;
    int kinds[MAX_IMAGES], unsure;
    const int works = prepare(w, s, &args, kinds, &unsure);
    float logits[MAX_IMAGES * CLASSES];
    memset(logits, 0x5a, sizeof logits);
    float before[MAX_IMAGES * CLASSES];
    memcpy(before, logits, sizeof before);
    if (works && s->logits == NULL) {
        const rvit_status status = expect_status_of(rvit_session_run(s->it, &args, logits));
        enqueued(s, &args, kinds, unsure);
        waited(s, status);
        if (status == RVIT_OK)
            REQUIRE(memcmp(logits, session_floats(s->it, RVIT_RESULT_LOGITS), (size_t)args.n_images * CLASSES * 4) == 0);
        else
            REQUIRE(memcmp(logits, before, sizeof logits) == 0);
        return;
    }
    EXPECT(rvit_session_run(s->it, &args, logits), s->it != NULL && s->logits != NULL ? RVIT_UNSUPPORTED : RVIT_INVALID_ARGUMENT);
    REQUIRE(memcmp(logits, before, sizeof logits) == 0);
}

static void look_at_image(const session_slot *s, int32_t stage, int32_t image)
{
    const int there = s->has_results && stage >= 0 && stage < s->n_stages && image >= 0 && image < s->n_images;
    const int32_t *cu = session_cu_seqlens(s->it, stage), *kept = there ? session_kept(s->it, stage, image) : NULL;
    const float *sizes = there ? session_sizes(s->it, stage, image) : NULL;
    uint8_t mask[TOKENS];
    REQUIRE((kept != NULL) == there && (sizes != NULL) == (there && s->merges));
    EXPECT(rvit_session_keep_mask(s->it, stage, image, mask), there ? RVIT_OK : RVIT_INVALID_ARGUMENT);
    int32_t n_kept = 0;
    float sum = 0;
    for (int32_t i = 0; there && i < cu[image + 1] - cu[image]; i++) {
        REQUIRE(kept[i] >= (s->prune.type == RVIT_PRUNE_EVIT_FUSED ? -1 : 0) && kept[i] < TOKENS);
        REQUIRE(kept[i] < 0 || mask[kept[i]] == 1);
        n_kept += kept[i] >= 0;
        sum += sizes != NULL ? sizes[i] : 0;
    }
    for (int i = 0; i < TOKENS && there; i++)
        n_kept -= mask[i];
    REQUIRE(!there || (n_kept == 0 && kept[0] == 0 && mask[0] == 1));
    REQUIRE(sizes == NULL || sum == TOKENS);
}

static void look_at_trace(const session_slot *s, int32_t what, int32_t index)
{
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    view.data = UNTOUCHED;
    const int is_stage = index >= 0 && index < s->n_stages, scored = !s->merges && !s->masked;
    const int is_anchors = s->n_stages > 0 && index == s->n_stages && s->prune.type == RVIT_PRUNE_HIPRUNE && s->prune.alpha > 0;
    const int exists = (what == 0 && index == 0) || (what == 1 && index >= 0 && index < DEPTH) ||
                       (what == 2 && ((is_stage && scored) || is_anchors)) || (what == 3 && is_stage && s->merges);
    const rvit_status wanted = s->it == NULL              ? RVIT_INVALID_ARGUMENT
                               : !s->desc.trace           ? RVIT_UNSUPPORTED
                               : s->has_results && exists ? RVIT_OK
                                                          : RVIT_INVALID_ARGUMENT;
    if (EXPECT(rvit_session_get(s->it, (rvit_result)(RVIT_TRACE_EMBEDDING + what), index, &view), wanted))
        REQUIRE(view.rows >= s->n_images && view.rows <= (int64_t)s->n_images * TOKENS && view.data != UNTOUCHED);
    else
        REQUIRE(view.data == UNTOUCHED && view.rows == 0);
}

void session_look(world *w)
{
    const session_slot *s = &w->sessions[choose(&w->c, N_SESSIONS)];
    for (int32_t stage = -2; stage <= s->n_stages; stage++) {
        const int there = s->has_results && stage >= -1 && stage < s->n_stages;
        const int32_t *cu = session_cu_seqlens(s->it, stage);
        REQUIRE((cu != NULL) == there);
        if (there)
            EXPECT(rvit_cu_seqlens_check(cu, s->n_images, TOKENS, (int64_t)s->n_images * TOKENS), RVIT_OK);
        REQUIRE((session_result(s->it, RVIT_RESULT_KEPT, stage).data != NULL) == (there && stage >= 0));
        REQUIRE((session_result(s->it, RVIT_RESULT_SIZES, stage).data != NULL) == (there && stage >= 0 && s->merges));
        for (int32_t image = -1; image <= s->n_images; image++)
            look_at_image(s, stage, image);
        rvit_result_view select = RVIT_RESULT_VIEW_INIT;
        EXPECT(rvit_session_get(s->it, RVIT_TRACE_SELECT, stage, &select), stage < 0 || stage >= s->n_stages ? RVIT_INVALID_ARGUMENT
                                                                           : s->merges                       ? RVIT_UNSUPPORTED
                                                                                                             : RVIT_OK);
        const int32_t *counts = session_result(s->it, RVIT_TRACE_COUNTS, stage).data;
        REQUIRE(counts == NULL || (stage >= 0 && stage < s->n_stages && counts[0] == 0));
    }
    for (int32_t image = -1; image <= s->n_images; image++) {
        float grid[(TOKENS - 1) * DIM];
        const int there = s->has_results && image >= 0 && image < s->n_images;
        EXPECT(rvit_session_feature_grid(s->it, image, -1, grid), s->it == NULL                               ? RVIT_INVALID_ARGUMENT
                                                                  : !(s->desc.outputs & RVIT_OUTPUT_FEATURES) ? RVIT_UNSUPPORTED
                                                                  : there                                     ? RVIT_OK
                                                                                                              : RVIT_INVALID_ARGUMENT);
    }
    for (int32_t what = 0; what <= 3; what++)
        for (int32_t index = -1; index <= DEPTH; index++)
            look_at_trace(s, what, index);
    REQUIRE((session_floats(s->it, RVIT_RESULT_FEATURES) != NULL) == (s->has_results && s->desc.outputs & RVIT_OUTPUT_FEATURES));
    REQUIRE((session_floats(s->it, RVIT_RESULT_CLS_ATTENTION) != NULL) == (s->has_results && s->desc.outputs & RVIT_OUTPUT_CLS_ATTENTION));
    REQUIRE((session_floats(s->it, RVIT_RESULT_POOLED) != NULL) == (s->has_results && s->desc.outputs & RVIT_OUTPUT_POOLED));
    REQUIRE((session_floats(s->it, RVIT_RESULT_BLOCK_FEATURES) != NULL) ==
            (s->has_results && s->desc.outputs & RVIT_OUTPUT_BLOCK_FEATURES));
    REQUIRE((session_floats(s->it, RVIT_RESULT_RECEIVED_ATTENTION) != NULL) ==
            (s->has_results && s->desc.outputs & RVIT_OUTPUT_RECEIVED_ATTENTION));
    REQUIRE(session_floats(s->it, RVIT_RESULT_PROJECTED) == NULL);
    rvit_stats stats = RVIT_STATS_INIT;
    EXPECT(rvit_session_get_stats(s->it, &stats), s->it != NULL ? RVIT_OK : RVIT_INVALID_ARGUMENT);
}
