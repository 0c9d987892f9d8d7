// The sizes of indirect dispatches (triples of workgroup counts), computed from a row count and spread over two dimensions. `push` has
// n_dispatch_sizes, dispatch_sizes_at and rules_at. Define DISPATCH_SIZES_BINDING.
#ifndef DISPATCH_SIZES_GLSL
#define DISPATCH_SIZES_GLSL

layout(binding = DISPATCH_SIZES_BINDING) coherent buffer DispatchSizes {
    uint arrived;        // workgroups of a select that have arrived; 0 between dispatches
    uint smallest_error; // 2^32 - 1 minus the smallest error so far; 0: none
    uint size_words[];
};

uint rule(uint i, uint field)
{
    return size_words[uint(push.rules_at) + i * RVIT_DISPATCH_RULE_WORDS + field];
}

void store_dispatch_sizes(uint live, uint rank)
{
    for (uint i = rank; i < uint(push.n_dispatch_sizes); i += THREADS) {
        const uint units = min(live, rule(i, RVIT_DISPATCH_CAPACITY)) * rule(i, RVIT_DISPATCH_MULTIPLY);
        const uint divide = rule(i, RVIT_DISPATCH_DIVIDE);
        const uint groups = (units / divide + uint(units % divide != 0)) * rule(i, RVIT_DISPATCH_TIMES);
        const uint width = max(min(groups, rule(i, RVIT_DISPATCH_MAX_GROUPS)), 1);
        const uint at = uint(push.dispatch_sizes_at) + i * 3;
        size_words[at] = width;
        size_words[at + 1] = groups / width + uint(groups % width != 0);
        size_words[at + 2] = 1;
    }
}

#endif
