#include "verify_judge.h"

#include <math.h>
#include <stdlib.h>

/* Root mean square errors of scores in the stage with the largest ones, over all policies of the demo checkpoint
   (bench/notes/decisions.md). Doubled for predictors, whose errors have long tails. */
double judge_tolerance(enum judge_kind kind, rvit_precision precision)
{
    static const double errors[][5] = {[JUDGE_ATTENTION] = {1.8e-6, 5e-4, 4.2e-3, 2.5e-2, 5e-2},
                                       [JUDGE_SUMS] = {5e-7, 7e-5, 7e-4, 4e-3, 9e-3},
                                       [JUDGE_PREDICTOR] = {1e-6, 1.8e-4, 1.7e-3, 8.2e-3, 1.8e-2}};
    return 4 * sqrt(2) * errors[kind][precision]; /* sqrt(2), because a decision compares two scores */
}

static double gap(double a, double b, double min_scale)
{
    const double scale = fmax(fmax(fabs(a), fabs(b)), min_scale);
    return isinf(scale) ? INFINITY : scale > 0 ? fabs(a - b) / scale : 0;
}

static void add_error(struct judgement *self, double a, double b, double min_scale)
{
    const double error = gap(a, b, min_scale);
    self->n_scores++;
    self->squares += error * error;
    self->largest_error = fmax(self->largest_error, error);
}

static void add_difference(struct judgement *self, double margin, double tolerance)
{
    *(margin < tolerance ? &self->within : &self->beyond) += 1;
    self->largest_margin = fmax(self->largest_margin, margin);
}

static int best_first(const void *a, const void *b)
{
    const struct judge_rank *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : (x->row > y->row) - (x->row < y->row);
}

static int worst_first(const void *a, const void *b)
{
    const struct judge_rank *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score) - (x->score < y->score) : (x->row > y->row) - (x->row < y->row);
}

/* A rank is kept while the sum up to it is at most the fraction `mass` of the total. */
static void find_edges_of_mass(struct judge_rank *ranks, int32_t n, double mass)
{
    double sum = 0, so_far = 0;
    for (int32_t r = 0; r < n; r++)
        sum += ranks[r].score;
    for (int32_t r = 0; r < n; r++) {
        so_far += ranks[r].score;
        ranks[r].edge = r == 0 ? INFINITY : gap(so_far / sum, mass, 0);
    }
}

/* A rank is kept while it is the nearest one to a sample. Distances are fractions of the sum of all scores. */
static void find_edges_of_samples(struct judge_rank *ranks, int32_t n, int32_t n_samples)
{
    double sum = 0, so_far = 0, first = 0;
    for (int32_t r = 1; r < n; r++)
        sum += ranks[r].score;
    for (int32_t r = 1; r < n && first == 0; r++)
        first = ranks[r].score / sum;
    for (int32_t r = 0; r < n; r++)
        ranks[r].edge = ranks[r].kept ? 0 : INFINITY;
    for (int32_t k = 0; k < n_samples; k++) {
        const double point = first + (n_samples > 1 ? k * (1 - first) / (n_samples - 1) : 0);
        double nearest = INFINITY, other = INFINITY;
        int32_t picked = 0;
        so_far = 0;
        for (int32_t r = 0; r < n; r++) {
            so_far += r > 0 ? ranks[r].score : 0;
            const double distance = fabs(point - so_far / sum);
            if (distance < nearest) {
                other = nearest;
                nearest = distance;
                picked = r;
            } else {
                other = fmin(other, distance);
            }
        }
        so_far = 0;
        for (int32_t r = 0; r < n; r++) {
            so_far += r > 0 ? ranks[r].score : 0;
            if (!ranks[r].kept)
                ranks[r].edge = fmin(ranks[r].edge, fabs(point - so_far / sum) - nearest);
        }
        if (ranks[picked].kept) /* it is dropped only if no sample is nearest to it */
            ranks[picked].edge = fmax(ranks[picked].edge, other - nearest);
    }
}

/* Ranks the competing rows. Returns their number. */
static int32_t rank_rows(const struct judge_rule *rule, const struct judge_rows *rows, struct judge_rank *ranks)
{
    const int32_t begin = rule->prefix_competes ? 0 : rule->n_prefix;
    int32_t n = 0, n_kept = 0;
    for (int32_t row = begin; row < rows->len; row++) {
        ranks[n++] = (struct judge_rank){.score = (double)rows->scores_b[row], .row = row, .kept = rows->keep_b[row], .edge = INFINITY};
        n_kept += rows->keep_b[row] != 0;
    }
    if (n == 0)
        return 0;
    qsort(ranks, (size_t)n, sizeof *ranks, rule->mode == RVIT_SELECT_SAMPLE ? worst_first : best_first);
    if (rule->prefix_competes) /* prefix rows stay regardless of their rank */
        n_kept = rule->counts[n];
    for (int32_t r = 0; r < n && rule->mode == RVIT_SELECT_TOP_K; r++)
        ranks[r].kept = r < n_kept;
    if (rule->mode == RVIT_SELECT_MASS)
        find_edges_of_mass(ranks, n, rule->mass);
    if (rule->mode == RVIT_SELECT_SAMPLE && n > 1)
        find_edges_of_samples(ranks, n, rule->n_samples);
    return n;
}

/* The row can reach any rank with a near score, and the decision about that rank can change. */
static double margin_by_rank(const struct judge_rule *rule, const struct judge_rank *ranks, int32_t n, int32_t rank)
{
    double margin = INFINITY;
    for (int32_t r = 0; r < n; r++) {
        const double turn = ranks[r].kept != ranks[rank].kept ? 0 : ranks[r].edge;
        margin = fmin(margin, fmax(gap(ranks[rank].score, ranks[r].score, rule->min_scale), turn));
    }
    return margin;
}

/* The margin for a threshold that at least the k_min best rows pass. */
static double margin_by_threshold(const struct judge_rule *rule, struct judge_rank *ranks, int32_t n, int32_t rank)
{
    double margin = gap(ranks[rank].score, rule->threshold, rule->min_scale);
    int32_t n_above = 0;
    for (int32_t r = 0; r < n; r++)
        n_above += ranks[r].score >= rule->threshold;
    for (int32_t r = 0; r < n; r++)
        if (n_above <= rule->k_min && (r < rule->k_min) != (rank < rule->k_min))
            margin = fmin(margin, gap(ranks[rank].score, ranks[r].score, rule->min_scale));
    return margin;
}

static void judge_scores(struct judgement *self, const struct judge_rule *rule, const struct judge_rows *rows, double tolerance,
                         struct judge_rank *ranks)
{
    int32_t n = -1;
    for (int32_t row = rule->prefix_competes ? 0 : rule->n_prefix; row < rows->len; row++)
        add_error(self, (double)rows->scores_a[row], (double)rows->scores_b[row], rule->min_scale);
    for (int32_t row = rule->n_prefix; row < rows->len; row++) {
        self->decisions++;
        if (!rows->keep_a[row] == !rows->keep_b[row])
            continue;
        if (n < 0)
            n = rank_rows(rule, rows, ranks);
        int32_t rank = 0;
        while (ranks[rank].row != row)
            rank++;
        add_difference(
            self, rule->mode == RVIT_SELECT_THRESHOLD ? margin_by_threshold(rule, ranks, n, rank) : margin_by_rank(rule, ranks, n, rank),
            tolerance);
    }
}

static double cosine(const float *metric, int32_t dim, int32_t a, int32_t b)
{
    double sum = 0;
    for (int32_t i = 0; i < dim; i++)
        sum += (double)metric[(int64_t)a * dim + i] * (double)metric[(int64_t)b * dim + i];
    return sum;
}

/* The odd row that is most similar to row `a`. */
static int32_t partner(const float *metric, const struct judge_rule *rule, const struct judge_rows *rows, int32_t a, double *out_value)
{
    int32_t best = -1;
    *out_value = -INFINITY;
    for (int32_t b = rule->n_prefix | 1; b < rows->len; b += 2) {
        const double value = cosine(metric, rows->dim, a, b);
        if (value > *out_value) {
            *out_value = value;
            best = b;
        }
    }
    return best;
}

/* Even rows are merged, those most similar to an odd row first. */
static void judge_metrics(struct judgement *self, const struct judge_rule *rule, const struct judge_rows *rows, double tolerance,
                          struct judge_rank *ranks)
{
    const int32_t begin = rule->n_prefix + (rule->n_prefix & 1);
    int32_t n = 0;
    if (rows->same) {
        self->decisions += rows->len > begin ? (rows->len - begin + 1) / 2 : 0;
        return;
    }
    for (int32_t row = begin; row < rows->len; row += 2) {
        struct judge_rank *rank = &ranks[n++];
        double value;
        const int32_t with = partner(rows->metric_b, rule, rows, row, &rank->score),
                      other = partner(rows->metric_a, rule, rows, row, &value);
        rank->row = row;
        self->decisions++;
        add_error(self, value, rank->score, rule->min_scale);
        if (!rows->keep_a[row] && !rows->keep_b[row] && with != other)
            add_difference(self, gap(rank->score, cosine(rows->metric_b, rows->dim, row, other), rule->min_scale), tolerance);
    }
    qsort(ranks, (size_t)n, sizeof *ranks, best_first);
    const int32_t max = (rows->len - rule->n_prefix) / 2, merges = rule->merges < max ? rule->merges : max;
    for (int32_t r = 0; r < n; r++)
        if (!rows->keep_a[ranks[r].row] != !rows->keep_b[ranks[r].row])
            add_difference(self,
                           merges >= 1 && merges < n ? gap(ranks[r].score, ranks[r < merges ? merges : merges - 1].score, rule->min_scale)
                                                     : INFINITY,
                           tolerance);
}

void judge_image(struct judgement *self, const struct judge_rule *rule, const struct judge_rows *rows, double tolerance,
                 struct judge_rank *ranks)
{
    if (rows->metric_b)
        judge_metrics(self, rule, rows, tolerance, ranks);
    else
        judge_scores(self, rule, rows, tolerance, ranks);
}
