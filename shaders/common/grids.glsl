// Grids (triples of workgroup counts) of indirect dispatches, computed from a row count and spread over two dimensions. `push` has n_grids,
// grids_at and rules_at. Define GRIDS_BINDING.
#ifndef GRIDS_GLSL
#define GRIDS_GLSL

layout(binding = GRIDS_BINDING) coherent buffer Grids {
    uint arrived;        // workgroups of a select that have arrived; 0 between dispatches
    uint smallest_error; // 2^32 - 1 minus the smallest error so far; 0: none
    uint grid_words[];
};

uint rule(uint i, uint field)
{
    return grid_words[uint(push.rules_at) + i * RVIT_GRIDS_RULE_WORDS + field];
}

void store_grids(uint live, uint rank)
{
    for (uint i = rank; i < uint(push.n_grids); i += THREADS) {
        const uint units = min(live, rule(i, RVIT_GRIDS_CAPACITY)) * rule(i, RVIT_GRIDS_MULTIPLY);
        const uint divide = rule(i, RVIT_GRIDS_DIVIDE);
        const uint groups = (units / divide + uint(units % divide != 0)) * rule(i, RVIT_GRIDS_TIMES);
        const uint width = max(min(groups, rule(i, RVIT_GRIDS_MAX_GROUPS)), 1);
        const uint at = uint(push.grids_at) + i * 3;
        grid_words[at] = width;
        grid_words[at + 1] = groups / width + uint(groups % width != 0);
        grid_words[at + 2] = 1;
    }
}

#endif
