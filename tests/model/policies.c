/* Compares every policy, on the demo checkpoint and tiles of its sheet, with a float64 reference file of tests/reference/make_policies.py:
   the tokens kept at each stage, and the logits. Each policy line of the file is a test.

     test_policies [--data FOLDER] [FILE] [OPTIONS OF EVERY TEST PROGRAM]

   --data is the folder of the checkpoint and the sheet. FILE is the reference file; the default is policies_8.txt. */
#include <math.h>

#include "harness.h"
#include "tests/deit_recipe.h"
#include "tools/cli/image_file.h"
#include "tools/cli/preprocess.h"
#include "tools/cli/session_results.h"

enum { SIZE = 224, TILE = 32, BATCH = 8, MAX_TOKENS = 256, MAX_CLASSES = 16, MAX_CASES = 64, FUSED = -1 };
#define IMAGE_LENGTH ((size_t)3 * SIZE * SIZE)
#define LOGITS_TOLERANCE 1e-4

typedef struct policy_case {
    char title[128]; /* "evit keep=0.5" */
    long offset;     /* position of its first image in the file */
} policy_case;

static struct {
    FILE *file;
    int tokens, prefix, classes, patches, images;
    policy_case cases[MAX_CASES];
    int n_cases;
    struct image sheet;
    rvit_model *model;
    const char *data;      /* the folder of checkpoint and sheet */
    double excused_margin; /* a decision with a smaller margin may differ */
} T;

/* A session's results for one image. */
typedef struct outcome {
    int32_t n_stages, n_tokens[RVIT_PRUNE_MAX_STAGES];
    int32_t kept[RVIT_PRUNE_MAX_STAGES][MAX_TOKENS];
    float sizes[RVIT_PRUNE_MAX_STAGES][MAX_TOKENS]; /* 0 unless tokens are merged */
    float logits[MAX_CLASSES];
} outcome;

static void read_images(int first, int n, float *out)
{
    const int columns = T.sheet.width / TILE;
    for (int i = 0; i < n; i++) {
        const int tile = first + i;
        const size_t corner = ((size_t)(tile / columns) * TILE * (size_t)T.sheet.width + (size_t)(tile % columns) * TILE) * 3;
        const struct image_view view = {T.sheet.pixels + corner, (int64_t)T.sheet.width * 3, TILE, TILE};
        const rvit_image_recipe recipe = deit_recipe(SIZE);
        rvit_image image = preprocess_source(view);
        image.target_width = image.target_height = SIZE;
        struct image_error error;
        if (!preprocess_image(&recipe, &image, out + (size_t)i * IMAGE_LENGTH, NULL, &error))
            fail_msg("tile %d: %s", tile, error.text);
    }
}

static int32_t parse_blocks(const char *text, int32_t *out_blocks)
{
    int32_t n = 0;
    for (char *end; *text && *text != ' '; text = *end == ',' ? end + 1 : end) {
        assert_true(n < RVIT_PRUNE_MAX_STAGES);
        out_blocks[n++] = (int32_t)strtol(text, &end, 10);
        assert_true(end > text);
    }
    return n;
}

static rvit_prune_desc parse_settings(const char *title)
{
    rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
    char words[sizeof((policy_case *)0)->title];
    snprintf(words, sizeof words, "%s", title);
    char *word = strtok(words, " ");
    int32_t type = RVIT_PRUNE_NONE;
    expect_ok(rvit_enum_from_name(RVIT_ENUM_PRUNE, word, &type));
    desc.type = (rvit_prune_type)type;
    while ((word = strtok(NULL, " "))) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = 0;
        if (!strcmp(word, "keep"))
            desc.keep = strtod(value, NULL);
        else if (!strcmp(word, "threshold"))
            desc.threshold = strtod(value, NULL);
        else if (!strcmp(word, "mass"))
            desc.mass = strtod(value, NULL);
        else if (!strcmp(word, "samples"))
            desc.n_samples = (int32_t)strtol(value, NULL, 10);
        else if (!strcmp(word, "merges"))
            desc.merges = (int32_t)strtol(value, NULL, 10);
        else if (!strcmp(word, "alpha"))
            desc.alpha = strtod(value, NULL);
        else if (!strcmp(word, "object_block"))
            desc.object_block = (int32_t)strtol(value, NULL, 10);
        else if (!strcmp(word, "blocks"))
            desc.n_blocks = parse_blocks(value, desc.blocks);
        else
            fail_msg("'%s' is not a setting", word);
    }
    return desc;
}

static void collect(const rvit_session *session, int32_t image, const float *logits, outcome *out)
{
    memset(out, 0, sizeof *out);
    out->n_stages = session_n_stages(session);
    for (int32_t s = 0; s < out->n_stages; s++) {
        const int32_t *cu_seqlens = session_cu_seqlens(session, s), *kept = session_kept(session, s, image);
        const float *sizes = session_sizes(session, s, image);
        assert_non_null(kept);
        const int32_t n = cu_seqlens[image + 1] - cu_seqlens[image];
        assert_in_range(n, 1, MAX_TOKENS);
        out->n_tokens[s] = n;
        memcpy(out->kept[s], kept, (size_t)n * sizeof *kept);
        if (sizes)
            memcpy(out->sizes[s], sizes, (size_t)n * sizeof *sizes);
    }
    memcpy(out->logits, logits + (size_t)image * (size_t)T.classes, (size_t)T.classes * sizeof *logits);
}

static void run(rvit_session *session, const float *images, int n, const uint8_t *keep, outcome *out)
{
    float logits[BATCH * MAX_CLASSES];
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n;
    args.input.data = images;
    args.keep = keep;
    expect_ok(rvit_session_run(session, &args, logits));
    for (int i = 0; i < n; i++)
        collect(session, i, logits, &out[i]);
}

/* A stage in the reference file. */
typedef struct expected_stage {
    int block, patches, fused;
    double margin;
    uint8_t kept[MAX_TOKENS]; /* 1 for each kept token */
} expected_stage;

static expected_stage read_stage(const char *line)
{
    expected_stage stage = {0};
    char digits[MAX_TOKENS];
    assert_int_equal(sscanf(line, "stage %d %d %d %lf %255s", &stage.block, &stage.patches, &stage.fused, &stage.margin, digits), 5);
    assert_int_equal(strlen(digits), (T.patches + 3) / 4);
    memset(stage.kept, 1, (size_t)T.prefix);
    for (int p = 0; p < T.patches; p++) {
        const char digit[2] = {digits[p / 4], 0};
        stage.kept[T.prefix + p] = (strtoul(digit, NULL, 16) >> p % 4) & 1;
    }
    return stage;
}

/* The remaining tokens in the expected order: ascending, then the fused ones; or ToMe's order. */
static int32_t expected_order(const expected_stage *stage, const int32_t *before, int32_t n_before, int merged, int32_t *out)
{
    int32_t n = 0;
    for (int odd = 0; odd < (merged ? 2 : 1); odd++)
        for (int32_t i = 0; i < n_before; i++)
            if (before[i] != FUSED && stage->kept[before[i]] && (!merged || i % 2 == odd))
                out[n++] = before[i];
    for (int f = 0; f < stage->fused; f++)
        out[n++] = FUSED;
    return n;
}

static int same_stage(const outcome *got, int32_t s, const expected_stage *wanted, int merged)
{
    int32_t all[MAX_TOKENS], order[MAX_TOKENS];
    for (int32_t t = 0; t < T.tokens; t++)
        all[t] = t;
    const int32_t n = expected_order(wanted, s ? got->kept[s - 1] : all, s ? got->n_tokens[s - 1] : T.tokens, merged, order);
    assert_int_equal(n, T.prefix + wanted->patches + wanted->fused);
    return got->n_tokens[s] == n && !memcmp(got->kept[s], order, (size_t)n * sizeof *order);
}

static int same_sizes(const outcome *got, int32_t s, char *line)
{
    int32_t row = T.prefix;
    strtok(line, " ");
    for (const char *word; (word = strtok(NULL, " \n")); row++)
        if (row >= got->n_tokens[s] || got->sizes[s][row] != (float)strtol(word, NULL, 10))
            return 0;
    for (int32_t p = 0; p < T.prefix; p++)
        if (got->sizes[s][p] != 1.0f)
            return 0;
    return row == got->n_tokens[s];
}

static void compare_logits(const char *title, int tile, const outcome *got, char *line, double *largest)
{
    strtok(line, " ");
    for (int c = 0; c < T.classes; c++) {
        const char *word = strtok(NULL, " \n");
        assert_non_null(word);
        const double difference = fabs((double)got->logits[c] - strtod(word, NULL));
        if (!(difference <= LOGITS_TOLERANCE))
            fail_msg("%s, tile %d: logit %d has an error of %g", title, tile, c, difference);
        *largest = fmax(*largest, difference);
    }
}

/* Compares one image of the file, up to its logits. Returns 1 if a decision with a small margin differs; the rest of the image is then not
   compared. Any other difference fails the test. */
static int compare_image(const char *title, int tile, const outcome *got, double *largest)
{
    char line[4096];
    int found = -1, near_tie = 0;
    int32_t s = 0;
    assert_non_null(fgets(line, sizeof line, T.file));
    assert_int_equal(sscanf(line, "image %d", &found), 1);
    assert_int_equal(found, tile);
    while (fgets(line, sizeof line, T.file)) {
        if (!strncmp(line, "stage", 5)) {
            const expected_stage wanted = read_stage(line);
            if (s >= got->n_stages)
                fail_msg("%s: there are %d stages, expected one at block %d", title, (int)got->n_stages, wanted.block);
            if (!near_tie && !same_stage(got, s, &wanted, got->sizes[s][0] > 0)) {
                if (wanted.margin >= T.excused_margin)
                    fail_msg("%s, tile %d, block %d: the %d kept tokens differ from the %d expected ones, and the smallest margin is %g",
                             title, tile, wanted.block, (int)got->n_tokens[s], T.prefix + wanted.patches + wanted.fused, wanted.margin);
                near_tie = 1;
            }
            s++;
        } else if (!strncmp(line, "sizes", 5)) {
            if (!near_tie && !same_sizes(got, s - 1, line))
                fail_msg("%s, tile %d, stage %d: sizes differ", title, tile, (int)s - 1);
        } else {
            assert_memory_equal(line, "logits", 6);
            assert_int_equal(s, got->n_stages);
            if (!near_tie)
                compare_logits(title, tile, got, line, largest);
            return near_tie;
        }
    }
    fail_msg("%s, tile %d: the file ends early", title, tile);
    return 0;
}

/* The keep masks of the policy MASK, from the kept tokens in the file: [stages, n, tokens]. */
static const uint8_t *read_masks(const policy_case *c, int first, int n, int n_stages)
{
    uint8_t *keep = scratch((size_t)(n_stages * n * T.tokens));
    char line[4096];
    int image = -1, s = 0;
    fseek(T.file, c->offset, SEEK_SET);
    while (image < first + n && fgets(line, sizeof line, T.file)) {
        s = sscanf(line, "image %d", &image) == 1 ? 0 : s;
        if (strncmp(line, "stage", 5) || image < first || image >= first + n)
            continue;
        const expected_stage stage = read_stage(line);
        assert_true(s < n_stages);
        memcpy(keep + (size_t)((s++ * n + image - first) * T.tokens), stage.kept, (size_t)T.tokens);
    }
    return keep;
}

static void expect_same_outcome(const char *title, int tile, const char *how, const outcome *a, const outcome *b)
{
    if (memcmp(a, b, sizeof *a))
        fail_msg("%s, tile %d: %s gives other bits", title, tile, how);
}

/* Whole models take a minute on the CPU's scalar tier, too. */
static int runs_few_images(void)
{
    return H.is_slow || (H.desc.tier == RVIT_TIER_SCALAR && !runs_all_cases());
}

/* An image's outcome has the same bits in a batch of one and in a batch of another order. A slow device checks one image. */
static void expect_independence(const policy_case *c, rvit_session *session, const float *images, int first, int n, int n_stages,
                                const outcome *among)
{
    outcome *other = scratch((size_t)n * sizeof *other);
    float *reversed = scratch((size_t)n * IMAGE_LENGTH * sizeof *reversed);
    const uint8_t *keep = NULL;
    for (int i = 0; i < n; i++) {
        memcpy(reversed + (size_t)(n - 1 - i) * IMAGE_LENGTH, images + (size_t)i * IMAGE_LENGTH, IMAGE_LENGTH * sizeof *reversed);
        if (i > 0 && runs_few_images())
            continue;
        if (n_stages)
            keep = read_masks(c, first + i, 1, n_stages);
        run(session, images + (size_t)i * IMAGE_LENGTH, 1, keep, other);
        expect_same_outcome(c->title, first + i, "a batch of one", other, &among[i]);
    }
    if (n_stages)
        return; /* all images have the same mask */
    run(session, reversed, n, NULL, other);
    for (int i = 0; i < n; i++)
        expect_same_outcome(c->title, first + i, "the reversed batch", &other[n - 1 - i], &among[i]);
}

static void equals_the_reference(void **state)
{
    const policy_case *c = *state;
    const rvit_prune_desc prune = parse_settings(c->title);
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    rvit_session *session;
    desc.max_images = BATCH;
    *prune_in(&desc) = prune;
    expect_ok(rvit_session_create(T.model, &desc, &session));
    const int n_given = prune.type == RVIT_PRUNE_MASK ? session_n_stages(session) : 0;
    outcome *outcomes = scratch(BATCH * sizeof *outcomes);
    float *images = scratch(BATCH * IMAGE_LENGTH * sizeof *images);
    double largest = 0;
    int n_close = 0;
    long at = c->offset;
    const int n_images = runs_few_images() && T.images > 2 ? 2 : T.images;
    for (int first = 0; first < n_images; first += BATCH) {
        const int n = n_images - first < BATCH ? n_images - first : BATCH;
        read_images(first, n, images);
        run(session, images, n, n_given ? read_masks(c, first, n, n_given) : NULL, outcomes);
        fseek(T.file, at, SEEK_SET);
        for (int i = 0; i < n; i++)
            n_close += compare_image(c->title, first + i, &outcomes[i], &largest);
        at = ftell(T.file);
        expect_independence(c, session, images, first, n, n_given, outcomes);
    }
    rvit_session_destroy(session);
    print_message("%s: %d images, %d with a near-tie decided otherwise, logits within %.2g\n", c->title, n_images, n_close, largest);
    assert_true(n_close * 4 <= n_images);
}

/* There is no reference for the tokens that the random policy keeps. Their number must be right, they must be the same for all images and
   for equal seeds, and the logits must equal those of the same keep mask. */
static void random_equals_its_mask(void **state)
{
    (void)state;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT, masked = RVIT_SESSION_DESC_INIT;
    rvit_session *session;
    outcome *drawn = scratch(4 * BATCH * sizeof *drawn);
    uint8_t *keep = scratch((size_t)(BATCH * T.tokens));
    float *images = scratch(BATCH * IMAGE_LENGTH * sizeof *images);
    const int n = runs_few_images() ? 2 : T.images < BATCH ? T.images : BATCH;
    read_images(0, n, images);
    desc.max_images = masked.max_images = BATCH;
    prune_in(&desc)->type = RVIT_PRUNE_RANDOM;
    prune_in(&desc)->keep = 0.3;
    for (int k = 0; k < 3; k++) {
        prune_in(&desc)->seed = k == 1 ? 5 : 4;
        expect_ok(rvit_session_create(T.model, &desc, &session));
        run(session, images, n, NULL, drawn + k * BATCH);
        rvit_session_destroy(session);
    }
    const int32_t n_tokens = T.prefix + (int32_t)(0.3 * T.patches);
    for (int i = 0; i < n; i++) {
        assert_int_equal(drawn[i].n_tokens[0], n_tokens);
        assert_memory_equal(drawn[i].kept[0], drawn[0].kept[0], sizeof drawn->kept[0]);
        expect_same_outcome("random", i, "the same seed", &drawn[2 * BATCH + i], &drawn[i]);
        for (int32_t t = 0; t < n_tokens; t++)
            keep[i * T.tokens + drawn[i].kept[0][t]] = 1;
    }
    assert_memory_not_equal(drawn[BATCH].kept[0], drawn[0].kept[0], sizeof drawn->kept[0]);
    prune_in(&masked)->type = RVIT_PRUNE_MASK;
    expect_ok(rvit_session_create(T.model, &masked, &session));
    run(session, images, n, keep, drawn + 3 * BATCH);
    rvit_session_destroy(session);
    for (int i = 0; i < n; i++)
        assert_memory_equal(drawn[3 * BATCH + i].logits, drawn[i].logits, sizeof drawn->logits);
}

static int close_model(void **state)
{
    rvit_model_destroy(T.model);
    T.model = NULL;
    policy_case *c = *state;
    void *name = c != NULL ? (void *)c->title : "random";
    return harness_teardown(&name);
}

static const char *data_path(const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", T.data, name);
    return out;
}

/* The harness opens the device only after the tests are listed, so each test opens the model. */
static int open_model(void **state)
{
    rvit_checkpoint *checkpoint = NULL;
    if (harness_setup(state))
        return -1;
    char path[1024];
    expect_ok(rvit_checkpoint_open(data_path("deit_tiny_cifar10.safetensors", path, sizeof path), NULL, &checkpoint));
    const rvit_status status = rvit_model_create(H.device[DEVICE], checkpoint, NULL, &T.model);
    rvit_checkpoint_destroy(checkpoint);
    expect_ok(status);
    T.excused_margin = H.desc.backend == RVIT_BACKEND_CPU ? 1e-6 : 1e-4;
    return 0;
}

/* Finds the position of each policy's images in the file. */
static int read_cases(const char *path)
{
    char line[4096];
    T.file = fopen(path, "r");
    if (!T.file || !fgets(line, sizeof line, T.file) || sscanf(line, "model %d %d %d", &T.tokens, &T.prefix, &T.classes) != 3)
        return -1;
    T.patches = T.tokens - T.prefix;
    if (T.tokens < 2 || T.tokens > MAX_TOKENS || T.prefix < 1 || T.patches < 1 || T.classes < 1 || T.classes > MAX_CLASSES)
        return -1;
    while (fgets(line, sizeof line, T.file)) {
        if (!strncmp(line, "policy ", 7)) {
            if (T.n_cases == MAX_CASES - 1)
                return -1;
            policy_case *c = &T.cases[T.n_cases++];
            snprintf(c->title, sizeof c->title, "%.*s", (int)strcspn(line + 7, "\n"), line + 7);
            c->offset = ftell(T.file);
        }
        T.images += T.n_cases == 1 && !strncmp(line, "image ", 6);
    }
    return T.n_cases > 0 && T.images > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct image_error error;
    const char *path = RVIT_MODEL_DATA "/policies_8.txt";
    char sheet[1024];
    T.data = harness_first_option(&argc, &argv, "--data", RVIT_EXAMPLES_DATA);
    if (argc > 1 && argv[1][0] != '-') {
        path = argv[1];
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    if (read_cases(path)) {
        fprintf(stderr, "%s: not a file of tests/reference/make_policies.py\n", path);
        return 1;
    }
    if (!image_load(data_path("cifar10_test_1000.png", sheet, sizeof sheet), &T.sheet, &error)) {
        fprintf(stderr, "cifar10_test_1000.png: %s\n", error.text);
        return 1;
    }
    struct CMUnitTest tests[MAX_CASES];
    for (int i = 0; i < T.n_cases; i++) {
        const struct CMUnitTest test = {T.cases[i].title, equals_the_reference, open_model, close_model, &T.cases[i]};
        tests[i] = test;
    }
    const struct CMUnitTest random = {"random", random_equals_its_mask, open_model, close_model, NULL};
    tests[T.n_cases] = random;
    const suite policies = {"policies", tests, (size_t)T.n_cases + 1};
    const suite *const suites[] = {&policies};
    const int result = harness_main(argc, argv, 0, suites, 1);
    image_free(&T.sheet);
    fclose(T.file);
    return result;
}
