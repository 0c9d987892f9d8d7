// Operands of IN type in texel buffers, four elements a texel. bf16 is no texel format: its texels are two words.
#ifndef TEXELS_GLSL
#define TEXELS_GLSL

#if IN_F16
#define TEXELS(at, name)                                   \
    layout(binding = at) uniform samplerBuffer name;       \
    layout(binding = at) uniform usamplerBuffer name##_bf16;
#define fetch(name, at) (IN_BF16 ? half4_decode(texelFetch(name##_bf16, at).xy, true) : texelFetch(name, at))
#else
#define TEXELS(at, name) layout(binding = at) uniform samplerBuffer name;
#define fetch(name, at) texelFetch(name, at)
#endif

#endif
