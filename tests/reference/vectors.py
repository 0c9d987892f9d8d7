"""Checks the reference policies against cases computed by hand. Run it before trusting a dump."""

import numpy as np

from policies import DynamicVit, best, match, sample


def expect(name, found, wanted):
    if list(found) != list(wanted):
        raise SystemExit(f"{name}: {list(found)}, expected {list(wanted)}")


def main():
    scores = np.array([1.0, 3, 3, 2])
    for k, wanted in ((1, [1]), (2, [1, 2]), (3, [1, 2, 3])):
        expect("best", best(scores, k)[0], wanted)
    expect("best of equals", best(np.ones(5), 2)[0], [0, 1])

    for attention, norms, n_samples, wanted in (
        ([0.1, 0.2, 0.3, 0.4], 1, 4, [1, 2, 3]),
        ([0.4, 0.1, 0.3, 0.2], [1, 4, 1, 1], 4, [0, 1, 2]),
        ([0.02, 0.02, 0.02, 0.02, 0.92], 1, 3, [1, 3, 4]),
        ([0.1, 0.15, 0.2, 0.25, 0.3], 1, 8, [1, 2, 3, 4]),
        ([0.25] * 4, 1, 4, [1, 2, 3]),
        ([0.3, 0.7], 1, 2, [1]),
        ([0.5], 1, 4, [0]),
    ):
        expect("sample", sample(np.array(attention) * np.array(norms, float), n_samples)[0], wanted)

    keys = np.array([[1, 0], [1, 0], [0, 1], [0.6, 0.8], [0.8, 0.6], [0, 1]], float)
    for merges, targets, order in ((1, {2: 5}, [0, 4, 1, 3, 5]), (2, {2: 5, 4: 3}, [0, 1, 3, 5]), (3, {2: 5, 4: 3}, [0, 1, 3, 5])):
        found, found_order, _ = match(keys, merges, 1)
        expect("match", sorted(found.items()), sorted(targets.items()))
        expect("order after the match", found_order, order)

    class Predictor(dict):
        def linear(self, x, name):
            return x @ self[name + ".weight"].T

    model = Predictor()
    name = "score_predictor.0."
    model[name + "in_conv.0.weight"], model[name + "in_conv.0.bias"] = np.ones(4), np.zeros(4)
    model[name + "in_conv.1.weight"] = np.eye(4)
    model[name + "out_conv.0.weight"] = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]])
    model[name + "out_conv.2.weight"] = np.array([[1.0, 1]])
    model[name + "out_conv.4.weight"] = np.array([[1.0], [-1]])
    tokens = np.array([[1.0, 2, 3, 4], [4, 3, 2, 1], [0, 0, 0, 4]])
    found = DynamicVit.keep_log_probability(None, model, tokens, 0)
    if np.abs(found - [-0.3784046, -0.0138829, -0.3970324]).max() > 5e-8:
        raise SystemExit(f"predictor: {found}")
    print("the reference agrees with the cases computed by hand")


if __name__ == "__main__":
    main()
