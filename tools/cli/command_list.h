/* The commands: their bits in the table of options, and the functions that run them and return the exit code. */
#ifndef RVIT_CLI_COMMAND_LIST_H
#define RVIT_CLI_COMMAND_LIST_H

enum { DEVICES = 1, CLASSIFY = 2, VERIFY = 4, INSPECT = 8, POLICIES = 16, BENCH = 32, MERGE = 64, QUANTIZE = 128, SELFTEST = 256 };

struct options;

int run_devices(const struct options *options);
int run_classify(const struct options *options);
int run_verify(const struct options *options);
int run_inspect(const struct options *options);
int run_merge(const struct options *options);
int run_policies(const struct options *options);
int run_bench(const struct options *options);
int run_quantize(const struct options *options);
int run_selftest(const struct options *options);

#endif
