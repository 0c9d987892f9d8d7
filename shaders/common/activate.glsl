// The activations of linear and quantize. Define ACTIVATION.
#ifndef ACTIVATE_GLSL
#define ACTIVATE_GLSL

#include "math.glsl"

float activate(float x)
{
    switch (ACTIVATION) {
    case RVIT_LINEAR_GELU:
        return gelu(x);
    case RVIT_LINEAR_GELU_TANH: // (1 + tanh u) / 2 = sigmoid(2 u)
        return sigmoid_product(x, 1.595769122, 0.0713548163);
    case RVIT_LINEAR_QUICK_GELU:
        return sigmoid_product(x, 1.702, 0.0);
    case RVIT_LINEAR_SILU:
        return sigmoid_product(x, 1.0, 0.0);
    }
    return x;
}

vec4 activate(vec4 x)
{
    return vec4(activate(x.x), activate(x.y), activate(x.z), activate(x.w));
}

// Two gates and two values make two outputs.
vec2 gate(vec4 x)
{
    return vec2(activate(x.x) * x.y, activate(x.z) * x.w);
}

#endif
