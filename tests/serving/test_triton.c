/* Tests of the Triton backend in a fake server; `test_triton [PATTERN]` runs the tests whose name matches. */
#include "scene.h"

extern const struct group fake_rules, answers, families, bad_requests, bad_configs, faults, neighbours, threads;

int main(int argc, char **argv)
{
    static const struct group *const groups[] = {&fake_rules, &answers,     &families, &bad_requests,
                                                 &neighbours, &bad_configs, &threads,  &faults};
    int failed = 0;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        failed += _cmocka_run_group_tests(groups[i]->name, groups[i]->tests, groups[i]->n_tests, NULL, NULL);
    direct_end();
    return failed != 0;
}
